// Package cluster starts the programs of engines through a launcher. The processes announce
// themselves to this one, the driver, and end when they no longer hear from it: so no launcher looks
// for ports in logs, and no process outlives its run.
package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/launcher"
	"github.com/trinity-go/trinity/python"
)

// lease is how long a member lives without an answer of the driver, and how long the driver waits
// for a sign of life of a member.
const lease = time.Minute

// Cluster starts programs. Its methods may be called concurrently.
type Cluster struct {
	Launcher launcher.Launcher
	Patience time.Duration // until a program must answer
	LogDir   string        // for the output of the programs, a file for each process; "" keeps none
	Say      func(string)  // takes lines about programs that start; nil: nobody reads them
	Every    time.Duration // between two lines about a program that does not answer yet; 0 is 30 s

	mu   sync.Mutex
	door *door // nil before the first program
}

var _ engine.Programs = (*Cluster)(nil)

// Start implements engine.Programs.
func (c *Cluster) Start(ctx context.Context, p engine.Program) (engine.Running, error) {
	d, err := c.open()
	if err != nil {
		return nil, err
	}
	request, err := Request(p, d.url(c.Launcher.Reach()), d.token)
	if err != nil {
		return nil, err
	}
	g, err := d.expect(p, c.LogDir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Patience, fmt.Errorf("cluster.start_timeout of %v has passed", c.Patience))
	defer cancel()
	c.say(fmt.Sprintf("%s starts%s", p.Name, c.place(p)))
	launched, err := c.Launcher.Launch(ctx, request)
	if err != nil {
		d.forget(g)
		return nil, fmt.Errorf("starting %s: %w", p.Name, err)
	}
	g.follow(launched)
	if err = c.await(ctx, g); err == nil {
		return g, nil
	}
	if left := g.end(); left != nil {
		err = fmt.Errorf("%w; %w", err, left)
	}
	return nil, fmt.Errorf("starting %s: %w", p.Name, err)
}

// await waits until a program answers, and says now and then how far it is.
func (c *Cluster) await(ctx context.Context, g *group) error {
	begun := time.Now()
	tick := time.NewTicker(cmp.Or(c.Every, 30*time.Second))
	defer tick.Stop()
	for {
		select {
		case <-g.ready:
			return nil
		case <-g.gone:
			return g.Err()
		case <-ctx.Done():
			return fmt.Errorf("%s: %w%s", g.missing(), context.Cause(ctx), g.logs())
		case <-tick.C:
			c.say(g.progress(time.Since(begun).Round(time.Second)))
		}
	}
}

func (c *Cluster) say(line string) {
	if c.Say != nil {
		c.Say(line)
	}
}

// place says where the output of a program will be, "" if none is kept.
func (c *Cluster) place(p engine.Program) string {
	switch {
	case c.LogDir == "":
		return ""
	case p.Nodes > 1:
		return fmt.Sprintf(" on %d machines; its output: %s to %d.log", p.Nodes, logPath(c.LogDir, p.Name, 0), p.Nodes-1)
	}
	return "; its output: " + logPath(c.LogDir, p.Name, 0)
}

// Request returns the group that starts a program of a driver at a URL.
func Request(p engine.Program, driver, token string) (trinity.ProcessGroup, error) {
	files, err := python.Files()
	if err != nil {
		return trinity.ProcessGroup{}, err
	}
	join, err := json.Marshal(map[string]any{
		"driver": driver, "group": p.Name, "command": p.Command, "answers": p.Answers, "lease": lease.Seconds(),
		"modules": p.Modules, "ranks": p.Ranks,
	})
	if err != nil {
		return trinity.ProcessGroup{}, err
	}
	env, secret := map[string]string{"TRINITY_JOIN": string(join)}, map[string]string{"TRINITY_JOIN_TOKEN": token}
	maps.Copy(env, p.Env)
	maps.Copy(secret, p.Secret)
	return trinity.ProcessGroup{
		Name: p.Name, Nodes: max(1, p.Nodes), GPUs: p.GPUs, Beside: p.Beside, Command: []string{p.Python, "-m", "trinity_worker.join"},
		Env: env, Secret: secret, Files: files,
	}, nil
}

// open opens the door for members, once.
func (c *Cluster) open() (*door, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.door != nil {
		return c.door, nil
	}
	if c.LogDir != "" {
		if err := os.MkdirAll(c.LogDir, 0o755); err != nil {
			return nil, err
		}
	}
	d, err := openDoor(c.Launcher.Reach())
	if err != nil {
		return nil, fmt.Errorf("opening a port for members of the cluster: %w", err)
	}
	c.door = d
	return d, nil
}

// Close ends all programs that still run.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.door == nil {
		return nil
	}
	err := c.door.close()
	c.door = nil
	return err
}

// url returns the URL of the door for members that reach it at host.
func (d *door) url(host string) string {
	if host == "" {
		host = "127.0.0.1"
	}
	_, port, _ := net.SplitHostPort(d.listener.Addr().String())
	return "http://" + net.JoinHostPort(host, port)
}

// logFile opens the file for the output of a member.
func logFile(dir, group string, rank int) (*os.File, error) {
	if dir == "" {
		return nil, nil
	}
	return os.OpenFile(logPath(dir, group, rank), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
}

func logPath(dir, group string, rank int) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%d.log", group, rank))
}
