package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/launcher"
)

// group is a program that has been asked for.
type group struct {
	program  engine.Program // its Nodes is at least 1
	logDir   string
	door     *door
	launched launcher.Launched

	mu      sync.Mutex
	members []*member // by rank
	address string    // of the program on the first machine
	err     error     // why the group is gone
	ready   chan struct{}
	gone    chan struct{}
}

// member is a process of a group that has announced itself.
type member struct {
	message
	heard time.Time
	said  programOutput
	log   *os.File // nil if no output is kept
}

func (m *member) String() string { return fmt.Sprintf("%s (%s)", m.Machine, m.Host) }

// join gives a member its rank: that of its arrival.
func (g *group) join(m *message) (map[string]any, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	rank := -1
	for i, x := range g.members {
		if x.ID == m.ID {
			rank, x.heard = i, time.Now()
		}
	}
	if rank < 0 {
		if len(g.members) == g.program.Nodes {
			return nil, fmt.Errorf("the group %s has its %d members already", g.program.Name, g.program.Nodes)
		}
		rank = len(g.members)
		log, err := logFile(g.logDir, g.program.Name, rank)
		if err != nil {
			return nil, err
		}
		g.members = append(g.members, &member{message: *m, heard: time.Now(), log: log})
	}
	answer := map[string]any{"rank": rank, "nodes": g.program.Nodes}
	if len(g.members) == g.program.Nodes {
		answer["master"], answer["master_port"] = g.members[0].Host, g.members[0].Port
	}
	return answer, nil
}

// hear takes a sign of life. The answer tells the member to end if the group is gone.
func (g *group) hear(m *message) (map[string]any, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for rank, x := range g.members {
		if x.ID != m.ID {
			continue
		}
		x.heard = time.Now()
		_, _ = x.said.Write([]byte(m.Output))
		if x.log != nil && m.Output != "" {
			if _, err := x.log.WriteString(m.Output); err != nil {
				return nil, err
			}
		}
		if rank == 0 && m.Address != "" && g.address == "" {
			g.address = m.Address
			close(g.ready)
		}
		if len(m.Missing) > 0 {
			g.failed(fmt.Errorf("%s on %s has no %s: %s", g.program.Python, x, strings.Join(m.Missing, ", "), g.program.Hint))
		}
		if m.Ended != nil { // not even a status of 0 says that all went well
			g.failed(fmt.Errorf("the program on %s has ended with status %d%s%s", x, *m.Ended, x.said.ending(*m.Ended), x.whole()))
		}
		return map[string]any{"stop": g.isGone()}, nil
	}
	return nil, fmt.Errorf("the group %s has no such member", g.program.Name)
}

const saying = "; it said: " // before a quotation

// whole names the file that has all that a member's program has written.
func (m *member) whole() string {
	if m.log == nil {
		return ""
	}
	return " (all of it: " + m.log.Name() + ")"
}

func (g *group) isGone() bool {
	select {
	case <-g.gone:
		return true
	default:
		return false
	}
}

// fail says that the group is gone, and why: its members end as soon as they ask. Stop makes the
// launcher end them.
func (g *group) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed(err)
}

func (g *group) failed(err error) {
	if !g.isGone() {
		g.err = fmt.Errorf("%s: %w", g.program.Name, err)
		close(g.gone)
	}
}

// follow watches the group from now on.
func (g *group) follow(launched launcher.Launched) {
	g.mu.Lock()
	g.launched = launched
	g.mu.Unlock()
	go g.watch(launched)
}

// watch fails the group when its processes are gone or a member is silent.
func (g *group) watch(launched launcher.Launched) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- launched.Wait(ctx) }()
	tick := time.NewTicker(lease / 6)
	defer tick.Stop()
	for {
		select {
		case <-g.gone:
			return
		case err := <-ended:
			if err == nil {
				err = errors.New("its processes have ended")
			}
			if !strings.Contains(err.Error(), saying) { // the launcher has not quoted its processes
				err = fmt.Errorf("%w%s", err, g.logs())
			}
			g.fail(err)
		case <-tick.C:
			g.mu.Lock()
			for _, m := range g.members {
				if silent := time.Since(m.heard); silent > lease {
					g.failed(fmt.Errorf("%s has been silent for %v%s", m, silent.Round(time.Second), m.said.quoted()))
					break
				}
			}
			g.mu.Unlock()
		}
	}
}

// missing says what the driver waits for.
func (g *group) missing() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var there []string
	for _, m := range g.members {
		there = append(there, m.String())
	}
	switch {
	case len(there) == 0:
		return fmt.Sprintf("none of its %d members has announced itself", g.program.Nodes)
	case len(there) < g.program.Nodes:
		return fmt.Sprintf("%d of %d members have announced themselves: %s", len(there), g.program.Nodes, strings.Join(there, ", "))
	}
	return fmt.Sprintf("the program on %s does not answer%s", there[0], g.members[0].said.quoted())
}

// progress says in one line how far a program is that starts.
func (g *group) progress(since time.Duration) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.members) < g.program.Nodes {
		return fmt.Sprintf("%s: %d of %d machines have announced themselves after %v", g.program.Name, len(g.members), g.program.Nodes, since)
	}
	first := g.members[0]
	line := fmt.Sprintf("%s has not answered for %v", g.program.Name, since)
	if last := first.said.lastLine(); last != "" {
		line += "; its last line: " + strings.ToValidUTF8(last, "")
	}
	return line
}

// logs quotes the launcher's output of a group if no member has announced itself.
func (g *group) logs() string {
	g.mu.Lock()
	come, launched := len(g.members), g.launched
	g.mu.Unlock()
	if come > 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var all programOutput
	if err := launched.Logs(ctx, &all); err != nil {
		return ""
	}
	return all.quoted()
}

// Address implements engine.Running.
func (g *group) Address() string { return g.address }

// Gone implements engine.Running.
func (g *group) Gone() <-chan struct{} { return g.gone }

// Err implements engine.Running.
func (g *group) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// stopTime is how long the end of a group may take: a scheduler may never end one whose machine is gone.
const stopTime = 5 * time.Minute

// Stop implements engine.Running.
func (g *group) Stop(ctx context.Context) error {
	g.fail(errors.New("stopped by the driver"))
	g.door.forget(g)
	g.mu.Lock()
	launched := g.launched
	g.mu.Unlock()
	var err error
	if launched != nil {
		ctx, cancel := context.WithTimeoutCause(ctx, stopTime, fmt.Errorf("it has not ended for %v", stopTime))
		defer cancel()
		err = launched.Stop(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.members {
		if m.log != nil {
			err = errors.Join(err, m.log.Close())
			m.log = nil
		}
	}
	if err != nil {
		err = fmt.Errorf("ending %s: %w", g.program.Name, err)
	}
	return err
}

// end stops the group, if it has been launched.
func (g *group) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), lease)
	defer cancel()
	return g.Stop(ctx)
}
