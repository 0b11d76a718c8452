package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// machine is where and when a row was measured.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Commit string `json:"commit"`
	Load   string `json:"load"` // average of 1, 5, 15 minutes, before
	Date   string `json:"date"`
	// Foreign is the share of the cores that other programs took while the row was measured; -1 is unknown.
	Foreign float64 `json:"foreign"`
}

func examine(ctx context.Context, cores int) machine {
	return machine{CPU: cpuName(), Cores: cores, Commit: commit(ctx), Load: loadAverage(), Date: time.Now().UTC().Format(time.DateOnly),
		Foreign: foreignDuring(time.Second)}
}

func cpuName() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	field := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); field[name] == "" {
			field[name] = strings.TrimSpace(value)
		}
	}
	if field["model name"] == "" {
		return runtime.GOARCH
	}
	return field["model name"] + " (family " + field["cpu family"] + ", model " + field["model"] + ")"
}

// commit is the checkout's, with a + when it has changes of Go files.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	changed, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", "*.go", "*.s").Output()
	if err == nil && len(changed) > 0 {
		return strings.TrimSpace(string(out)) + "+"
	}
	return strings.TrimSpace(string(out))
}

// loadAverage is "" where the system has no /proc.
func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(data)); err == nil && len(f) >= 3 {
		return strings.Join(f[:3], " ")
	}
	return ""
}
