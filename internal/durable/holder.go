package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxHolder is the most bytes that a file about a holder may have.
const maxHolder = 64 << 10

// Holders returns by the names of the locks in a directory who held them last. It takes no lock, so
// a holder may have released its own since; see [Held.Lives].
func Holders(dir string) (map[string]Held, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	found := map[string]Held{}
	for _, e := range entries {
		name, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), holderSuffix), holderPrefix)
		if !ok || !strings.HasSuffix(e.Name(), holderSuffix) || !e.Type().IsRegular() {
			continue
		}
		var h Held
		text, err := ReadWithin(dir, e.Name(), maxHolder)
		if err == nil && json.Unmarshal(text, &h) == nil && h.PID > 0 { // a half-written file knows no holder yet
			found[name] = h
		}
	}
	return found, nil
}

// Lives reports whether the process of the holder lives. It is known only on the holder's host.
func (h Held) Lives() (lives, known bool) {
	host, err := os.Hostname()
	if err != nil || host != h.Host || h.PID <= 0 {
		return false, false
	}
	p, err := os.FindProcess(h.PID)
	if err != nil {
		return false, true
	}
	defer p.Release()
	if err := p.Signal(syscall.Signal(0)); errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		return false, true
	}
	began, ok := beginOf(h.PID)
	return !ok || began.Before(h.Since.Add(clockSkew)), true // else another process has got its number
}

// clockSkew is how much later than its lock a process may seem to have begun.
const clockSkew = time.Minute

// beginOf returns when a process began, where the system tells it as Linux does.
func beginOf(pid int) (began time.Time, ok bool) {
	const ticks = 100 // a second, for all programs
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return began, false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the third on
	all, err := os.ReadFile("/proc/stat")
	if err != nil || len(fields) < 20 {
		return began, false
	}
	_, boot, _ := strings.Cut(string(all), "\nbtime ")
	boot, _, _ = strings.Cut(boot, "\n")
	booted, err := strconv.ParseInt(boot, 10, 64)
	after, err2 := strconv.ParseInt(fields[19], 10, 64)
	return time.Unix(booted+after/ticks, 0), err == nil && err2 == nil
}
