module muster.dev/programs/kai-gpu-reservation

go 1.26.0
