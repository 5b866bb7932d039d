module github.com/berth-scheduler/berth/tools/numbers

go 1.26.0
