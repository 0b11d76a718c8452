package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// side is one of the two that are compared.
type side interface {
	run() (sample, error)
	peakRSS() int64 // bytes; 0 is unknown
	stop() error
}

// process is a side that stays warm between runs.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	errors bytes.Buffer
	rss    int64 // of the servers that its runs started; 0 if they started none
}

// startChild starts a process in a folder, with variables beside our own, and waits until it is warm.
func startChild(ctx context.Context, dir string, variables []string, args ...string) (side, error) {
	p := &process{cmd: exec.CommandContext(ctx, args[0], args[1:]...)}
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), variables...)
	p.cmd.Stderr = &p.errors
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if s, err := p.read(); err != nil || !s.Ready {
		_ = p.stop() // err says more
		return nil, fmt.Errorf("warming up: %w", err)
	}
	return p, nil
}

// read returns the next sample; the process ending before one is an error that quotes what it said last.
func (p *process) read() (sample, error) {
	var s sample
	for p.out.Scan() {
		if text, ok := strings.CutPrefix(p.out.Text(), mark); ok {
			return s, json.Unmarshal([]byte(text), &s)
		}
	}
	_ = p.cmd.Wait() // its last words are complete only then
	return s, fmt.Errorf("%s ended, %s: %s", strings.Join(p.cmd.Args, " "), p.cmd.ProcessState, lastLines(p.errors.String(), 12))
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// ask writes a line, and returns the sample that answers it.
func (p *process) ask(line string) (sample, error) {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		return sample{}, err
	}
	return p.read()
}

func (p *process) run() (sample, error) {
	pid := strconv.Itoa(p.cmd.Process.Pid)
	before := processTicks(pid)
	s, err := p.ask("run")
	s.CPU += max(0, processTicks(pid)-before) / ticksPerSecond // s has that of a client which the process waits for
	p.rss = max(p.rss, s.PeakRSS)
	return s, err
}

// peakRSS returns that of the servers which the runs started, or else that of the process.
func (p *process) peakRSS() int64 {
	if p.rss > 0 {
		return p.rss
	}
	return peakOfProcess(p.cmd.Process.Pid)
}

// peakOfProcess is known where the system has /proc.
func peakOfProcess(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "VmHWM:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64) // another form counts as unknown
			return kib << 10
		}
	}
	return 0
}

// stop ends the process: what it would still write is of no use.
func (p *process) stop() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	if err := p.in.Close(); err != nil {
		return err
	}
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = p.cmd.Wait() // killed
	return nil
}

// command is a side whose whole process is timed.
type command struct {
	ctx    context.Context
	args   []string
	unit   string // s or ms
	dir    string // where it runs
	writes bool   // checkpoints, each time into a folder that is removed
	warm   bool
	rss    int64

	variables []string // beside our own
}

func (c *command) run() (sample, error) {
	if !c.warm { // the page cache
		c.warm = true
		if _, err := c.run(); err != nil {
			return sample{}, err
		}
	}
	cmd := exec.CommandContext(c.ctx, c.args[0], c.args[1:]...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.variables...)
	if c.writes {
		folder, err := os.MkdirTemp("", "trinity-bench-run-")
		if err != nil {
			return sample{}, err
		}
		defer os.RemoveAll(folder)
		cmd.Env = append(cmd.Env, "TRINITY_CHECKPOINT_ROOT_DIR="+folder)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return sample{}, fmt.Errorf("%s: %w: %s", strings.Join(c.args, " "), err, lastLines(said.String(), 12))
	}
	s := sample{Value: time.Since(start).Seconds(), CPU: (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()}
	if c.unit == "ms" {
		s.Value *= 1e3
	}
	c.rss = max(c.rss, peakOf(cmd.ProcessState))
	return s, nil
}

func (c *command) peakRSS() int64 { return c.rss }

func (c *command) stop() error { return nil }
