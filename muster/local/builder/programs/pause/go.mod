module muster.dev/programs/pause

go 1.26.0
