package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/serve/web"
	"github.com/trinity-go/trinity/python"
)

// door is where members of groups announce themselves.
type door struct {
	listener net.Listener
	token    string
	end      context.CancelFunc
	ended    chan error

	mu     sync.Mutex
	groups map[string]*group
}

const (
	maxBody     = 2 << 20 // bytes of a member's message
	messageTime = 30 * time.Second
)

// openDoor listens for members: on the loopback interface if host is "", else on the addresses of
// host.
func openDoor(host string) (*door, error) {
	ctx, end := context.WithCancel(context.Background())
	d := &door{token: rand.Text(), end: end, ended: make(chan error, 1), groups: map[string]*group{}}
	address := ":0" // the loopback interface
	if host != "" {
		address = net.JoinHostPort(host, "0")
	}
	var err error
	if d.listener, err = web.Listen(ctx, address, d.token); err != nil {
		end()
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/groups/{group}/members", d.handle((*group).arrive))
	mux.HandleFunc("POST /v1/groups/{group}/alive", d.handle((*group).hear))
	server := &web.Server{Handler: web.Guard(mux, d.token, refuse), Read: messageTime, Write: messageTime}
	go func() { d.ended <- server.Serve(ctx, d.listener) }()
	return d, nil
}

func refuse(w http.ResponseWriter, status int, err error) { http.Error(w, err.Error(), status) }

// message is what a member says.
type message struct {
	ID       string   `json:"id"`
	Protocol int      `json:"protocol"`
	Host     string   `json:"host"`    // that other members reach
	Machine  string   `json:"machine"` // its name, for people
	Port     int      `json:"port"`    // a free one
	Address  string   `json:"address"` // at which the program answers; "" until it does
	Ended    *int     `json:"ended"`   // the program's exit status
	Missing  []string `json:"missing"` // modules that the interpreter lacks
	Output   string   `json:"output"`  // of the program, since the last message
}

// handle decodes a message and encodes the answer.
func (d *door) handle(answer func(g *group, m *message) (map[string]any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !web.Authorized(r, d.token) {
			refuse(w, http.StatusUnauthorized, errors.New("missing or wrong bearer token"))
			return
		}
		body, status, err := web.Body(w, r, maxBody)
		if err != nil {
			refuse(w, status, err)
			return
		}
		var m message
		if err := json.Unmarshal(body, &m); err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		d.mu.Lock()
		g := d.groups[r.PathValue("group")]
		d.mu.Unlock()
		if g == nil {
			refuse(w, http.StatusGone, errors.New("this run has no such group, or no longer"))
			return
		}
		reply, err := answer(g, &m)
		if err != nil {
			refuse(w, http.StatusConflict, err)
			return
		}
		_ = web.WriteJSON(w, http.StatusOK, reply)
	}
}

// arrive gives a member its rank and, once all are there, the first member's address.
func (g *group) arrive(m *message) (map[string]any, error) {
	if m.Protocol != python.Protocol {
		err := fmt.Errorf("trinity_worker of %s speaks protocol %d, this program %d: install the wheel that `trinity worker` writes",
			m.Machine, m.Protocol, python.Protocol)
		g.fail(err)
		return nil, err
	}
	return g.join(m)
}

// expect makes room for a group.
func (d *door) expect(p engine.Program, logs string) (*group, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.groups[p.Name] != nil {
		return nil, fmt.Errorf("cluster: the group %s runs already", p.Name)
	}
	p.Nodes = max(1, p.Nodes)
	g := &group{program: p, logDir: logs, door: d, ready: make(chan struct{}), gone: make(chan struct{})}
	d.groups[p.Name] = g
	return g, nil
}

// forget makes the members of a group end, if they still ask.
func (d *door) forget(g *group) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.groups[g.program.Name] == g { // not one that was started since under the same name
		delete(d.groups, g.program.Name)
	}
}

// close ends all groups and the server.
func (d *door) close() error {
	d.mu.Lock()
	var left []*group
	for _, g := range d.groups {
		left = append(left, g)
	}
	d.mu.Unlock()
	var errs []error
	for _, g := range left {
		errs = append(errs, g.end())
	}
	d.end()
	return errors.Join(append(errs, <-d.ended)...)
}

var _ engine.Running = (*group)(nil)
