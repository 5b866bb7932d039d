module github.com/berth-scheduler/berth/tools/times

go 1.26.0
