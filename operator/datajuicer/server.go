package datajuicer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/trinity-go/trinity/internal/process"
)

// server is a started service.
type server struct {
	process *process.Process
	said    process.Ends
	exited  chan struct{} // closed when the process has exited
}

// upstream holds the arguments of Python that start Trinity-RFT's service.
var upstream = []string{"-m", "trinity.service.data_juicer.server.server"}

// start starts a service and waits until it answers.
func start(ctx context.Context, s *Service) (*server, string, error) {
	command, err := s.command()
	if err != nil {
		return nil, "", err
	}
	port, err := freePort(s.Port)
	if err != nil {
		return nil, "", err
	}
	wait := s.Wait
	if wait == 0 {
		wait = 5 * time.Minute
	}
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	s.Say("starting Data-Juicer at " + url)
	x := &server{exited: make(chan struct{})}
	command = slices.Concat(command, []string{"--host", "127.0.0.1", "--port", strconv.Itoa(port)})
	program := process.Program{Command: command, Stderr: &x.said}
	if x.process, err = program.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, "", fmt.Errorf("starting Data-Juicer: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, x.process.Out)
		_ = x.process.Wait() // its output says more than its status
		close(x.exited)
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("no answer within %s", wait))
	defer cancel()
	if err := x.answers(ctx, &Service{URL: url}); err != nil {
		x.stop()
		return nil, "", fmt.Errorf("starting Data-Juicer (%s): %w; it said: %s", command[0], err, &x.said)
	}
	return x, url, nil
}

// command returns the command that starts the service.
func (s *Service) command() ([]string, error) {
	if s.Start != nil {
		return s.Start, nil
	}
	for _, name := range []string{"python3", "python"} {
		if path, err := exec.LookPath(name); err == nil {
			return append([]string{path}, upstream...), nil
		}
	}
	return nil, errors.New("service.data_juicer.auto_start: there is no python3 in PATH: install Python with Trinity-RFT " +
		"and its extra `data`, " +
		"or start the service elsewhere and set server_url")
}

// freePort returns the port if it is free, or any free port for 0.
func freePort(port int) (int, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return 0, fmt.Errorf("service.data_juicer.port: %w: leave it out, or set server_url if Data-Juicer is running already", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// answers waits until the service answers. It returns an error if the process or ctx ends before.
func (x *server) answers(ctx context.Context, s *Service) error {
	for {
		if s.healthy(ctx) == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-x.exited:
			return errors.New("the process ended")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// stop ends the process and all processes that it started.
func (x *server) stop() {
	x.process.Kill()
	<-x.exited
}
