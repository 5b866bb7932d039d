module github.com/berth-scheduler/berth/tools/prose

go 1.26.0
