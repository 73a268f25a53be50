package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// moment is a time since the Unix epoch, or a length of time, in milliseconds. JSON has seconds.
type moment int64

const second moment = 1000

func (m *moment) UnmarshalJSON(text []byte) error {
	var seconds float64
	if err := json.Unmarshal(text, &seconds); err != nil {
		return err
	}
	*m = moment(math.Round(seconds * float64(second)))
	return nil
}

func (m moment) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// String has a fraction only where there is one.
func (m moment) String() string {
	if m%second == 0 {
		return strconv.FormatInt(int64(m/second), 10)
	}
	return fmt.Sprintf("%.3f", float64(m)/float64(second))
}

// onServer is the time as Kueue reads it back from an API server, which keeps whole seconds.
func (m moment) onServer() time.Time { return time.UnixMilli(int64(m)).Truncate(time.Second) }
