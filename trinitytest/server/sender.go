package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/model/safetensors"
)

// The lies of a Sender.
const (
	DiesSending Lie = "is gone after the first bucket"
	WrongShape  Lie = "lists a tensor with another shape"
	NeverJoins  Lie = "never joins its own group"
)

// Sender is an engine that sends its weights to fake servers. A connection to its port stands for each
// process of a group.
type Sender struct {
	engine.Publisher
	// Channels are the channels that were opened.
	Channels []engine.ChannelSpec

	dir  string
	lie  Lie
	open *senderChannel
}

// NewSender returns a sender of the engine's weights, which keeps the offered version in a directory.
func NewSender(trainer engine.Publisher, dir string) *Sender {
	return &Sender{Publisher: trainer, dir: dir}
}

// Close implements engine.Trainer.
func (s *Sender) Close() error {
	s.end()
	return s.Publisher.Close()
}

// Tell makes the sender lie from now on; "" makes it honest.
func (s *Sender) Tell(l Lie) { s.lie = l }

// Device implements engine.WeightSender.
func (*Sender) Device() string { return "cpu" }

// Offer implements engine.Publisher.
func (s *Sender) Offer(ctx context.Context, version int64) error {
	if err := errors.Join(os.RemoveAll(s.dir), os.MkdirAll(s.dir, 0o755)); err != nil {
		return err
	}
	return errors.Join(s.Publisher.SaveModel(ctx, s.dir), s.Publisher.Offer(ctx, version))
}

func (s *Sender) end() {
	if s.open != nil {
		_ = s.open.Close(context.Background()) // it may be closed already
	}
}

// OpenChannel implements engine.WeightSender.
func (s *Sender) OpenChannel(_ context.Context, to engine.ChannelSpec) (engine.WeightChannel, error) {
	s.end()
	data, err := os.ReadFile(filepath.Join(s.dir, safetensors.SingleName))
	if err != nil {
		return nil, err
	}
	file, err := safetensors.Parse("version", data)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.Channels = append(s.Channels, to)
	c := &senderChannel{of: s, spec: to, listener: l}
	size := int64(0)
	for _, name := range file.Names() {
		t, _ := file.Tensor(name)
		if len(c.buckets) == 0 || size+int64(len(t.Data)) > to.Limit {
			c.buckets, c.bytes, size = append(c.buckets, nil), append(c.bytes, nil), 0
		}
		last := len(c.buckets) - 1
		info := engine.TensorInfo{Name: name, DType: "float32", Shape: slices.Clone(t.Shape)}
		if s.lie == WrongShape && last == 0 && len(c.buckets[0]) == 0 {
			info.Shape[0]++
		}
		c.buckets[last], c.bytes[last] = append(c.buckets[last], info), append(c.bytes[last], t.Data...)
		size += int64(len(t.Data))
	}
	s.open = c
	return c, nil
}

type senderChannel struct {
	of       *Sender
	spec     engine.ChannelSpec
	buckets  [][]engine.TensorInfo
	bytes    [][]byte
	listener net.Listener
	members  []net.Conn
}

// Buckets implements engine.WeightChannel.
func (c *senderChannel) Buckets() [][]engine.TensorInfo { return c.buckets }

// Address implements engine.WeightChannel.
func (c *senderChannel) Address() (host string, port int) {
	return "127.0.0.1", c.listener.Addr().(*net.TCPAddr).Port
}

// Join implements engine.WeightChannel.
func (c *senderChannel) Join(context.Context) error {
	if c.of.lie == NeverJoins {
		return errors.New("the sender has no port left")
	}
	deadline := time.Now().Add(c.spec.Timeout)
	missing := map[string]bool{}
	for r := range c.spec.Ranks {
		missing[fmt.Sprintf("%s %d\n", c.spec.Group, r+1)] = true
	}
	for len(missing) > 0 {
		if err := c.listener.(*net.TCPListener).SetDeadline(deadline); err != nil {
			return err
		}
		conn, err := c.listener.Accept()
		if err != nil {
			return fmt.Errorf("%d ranks of the server have not come: %w", len(missing), err)
		}
		c.members = append(c.members, conn)
		line, err := readLine(conn)
		if err != nil || !missing[line] {
			return fmt.Errorf("%q is no rank of the group: %w", line, err)
		}
		delete(missing, line)
	}
	for _, conn := range c.members {
		if _, err := io.WriteString(conn, "ok\n"); err != nil {
			return err
		}
	}
	return nil
}

// Send implements engine.WeightChannel.
func (c *senderChannel) Send(ctx context.Context, bucket int) (json.RawMessage, error) {
	if c.of.lie == DiesSending && bucket > 0 {
		return nil, &trinity.LostError{Err: errors.New("the worker has ended")}
	}
	for _, conn := range c.members {
		if err := conn.SetDeadline(time.Now().Add(c.spec.Timeout)); err != nil {
			return nil, err
		}
		if _, err := conn.Write(c.bytes[bucket]); err != nil {
			return nil, err
		}
		if line, err := readLine(conn); err != nil || line != "got\n" {
			return nil, fmt.Errorf("a rank of the server does not receive bucket %d: %w", bucket, err)
		}
	}
	return nil, nil
}

// Close implements engine.WeightChannel.
func (c *senderChannel) Close(context.Context) error {
	_ = c.listener.Close() // twice is no harm
	for _, conn := range c.members {
		_ = conn.Close()
	}
	if c.of.lie == DiesSending {
		return errors.New("the worker has ended")
	}
	return nil
}

// readLine reads no byte after the line.
func readLine(conn io.Reader) (string, error) {
	var line []byte
	for one := make([]byte, 1); len(line) == 0 || line[len(line)-1] != '\n'; line = append(line, one...) {
		if _, err := io.ReadFull(conn, one); err != nil {
			return string(line), err
		}
	}
	return string(line), nil
}

// joined is the part of a server in a group.
type joined struct {
	mu      sync.Mutex
	group   string // "" before all ranks are in it
	ranks   []net.Conn
	entries []safetensors.Entry
}

// join connects the ranks of a server with a sender.
func (j *joined) join(address string, port, offset, world int, group string, leaveOut int) error {
	j.leave()
	j.mu.Lock()
	defer j.mu.Unlock()
	for rank := offset; rank < world; rank++ {
		if rank == leaveOut {
			continue
		}
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(address, strconv.Itoa(port)), time.Minute)
		if err != nil {
			return err
		}
		j.ranks = append(j.ranks, conn)
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil { // no delivery of a test takes longer
			return err
		}
		if _, err := fmt.Fprintf(conn, "%s %d\n", group, rank); err != nil {
			return err
		}
	}
	for _, conn := range j.ranks {
		if line, err := readLine(conn); err != nil || line != "ok\n" {
			return fmt.Errorf("the group has not come together: %q, %w", line, err)
		}
	}
	j.group = group
	return nil
}

// in returns the group that all ranks are in, "" if they are in none.
func (j *joined) in() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.group
}

// receive takes a bucket on all ranks.
func (j *joined) receive(bucket []engine.TensorInfo) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.ranks) == 0 {
		return errors.New("no group has been joined")
	}
	for i, conn := range j.ranks {
		for _, t := range bucket {
			count := 4
			for _, n := range t.Shape {
				count *= n
			}
			data := make([]byte, count)
			if _, err := io.ReadFull(conn, data); err != nil {
				return fmt.Errorf("receiving %s: %w", t.Name, err)
			}
			if i == 0 {
				e := safetensors.Bytes(t.Name, data)
				e.DType, e.Shape = safetensors.F32, t.Shape
				j.entries = append(j.entries, e)
			}
		}
		if _, err := io.WriteString(conn, "got\n"); err != nil {
			return err
		}
	}
	return nil
}

// leave ends the connections of all ranks.
func (j *joined) leave() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.end()
}

// leaveGroup ends the connections of a group's ranks. Another group stays when a request comes late.
func (j *joined) leaveGroup(group string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.group == "" || j.group != group {
		return fmt.Errorf("the group %q to be destroyed does not exist", group)
	}
	j.end()
	return nil
}

func (j *joined) end() {
	for _, conn := range j.ranks {
		_ = conn.Close()
	}
	j.group, j.ranks, j.entries = "", nil, nil
}

// write writes what has been received as a model like that of base.
func (j *joined) write(base, dir string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	config, err := os.ReadFile(filepath.Join(base, "config.json"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644); err != nil {
		return err
	}
	return safetensors.Write(filepath.Join(dir, safetensors.SingleName), j.entries, nil)
}
