package main

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// meter finds what share of the cores other programs took between two moments: what was busy, less our own processes.
type meter struct{ busy, total, own float64 }

// readMeter takes the sides whose processes run; processes that ended are counted as this process's children.
func readMeter(sides ...side) meter {
	busy, total := cpuTicks()
	m := meter{busy: busy, total: total, own: processTicks("self")}
	for _, s := range sides {
		if p, ok := s.(*process); ok {
			m.own += processTicks(strconv.Itoa(p.cmd.Process.Pid))
		}
	}
	return m
}

// foreign is the share since an earlier reading of the same processes; -1 where the system does not tell.
func (m meter) foreign(earlier meter) float64 {
	if m.total <= earlier.total {
		return -1
	}
	return max(0, (m.busy-earlier.busy)-(m.own-earlier.own)) / (m.total - earlier.total)
}

// foreignDuring is the share of all cores that is busy while this process sleeps.
func foreignDuring(d time.Duration) float64 {
	before := readMeter()
	time.Sleep(d)
	return readMeter().foreign(before)
}

// cpuTicks are those of all cores since the start of the machine; 0 where there is no /proc.
func cpuTicks() (busy, total float64) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(data), "\n")
	for i, field := range strings.Fields(line) {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil || i > 8 { // the name; times of guests are in the user's already
			continue
		}
		total += n
		if i != 4 && i != 5 { // idle, waiting for a disk
			busy += n
		}
	}
	return busy, total
}

// ticksPerSecond is what Linux tells programs on all platforms.
const ticksPerSecond = 100

// processTicks are those of a process and of its children that ended; 0 where there is no /proc.
func processTicks(pid string) (ticks float64) {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	name := strings.LastIndexByte(string(data), ')') // names may have spaces
	fields := strings.Fields(string(data)[name+1:])
	const utime, after = 11, 15 // user, system, children's user, children's system
	if len(fields) < after {
		return 0
	}
	for _, field := range fields[utime:after] {
		n, _ := strconv.ParseFloat(field, 64) // another form counts as nothing
		ticks += n
	}
	return ticks
}
