package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/retry"
)

var failAddress = failpoint.New("remote.address") // before the trainer writes its address, or that it has ended

// AddressFile is the file in a run's directory with the address of the trainer.
const AddressFile = "trainer.json"

// address is the content of AddressFile.
type address struct {
	URL   string `json:"url"`
	Token string `json:"token"` // only the owner of the file can read it
	Host  string `json:"host"`
	PID   int    `json:"pid"`
	Word  string `json:"word,omitempty"` // random, of the process
	Ended bool   `json:"ended"`          // the run has all its steps
	// TotalSteps was the trainer's last step; 0 if the trainer ends with its explorers.
	TotalSteps int64 `json:"total_steps,omitempty"`
}

// write writes AddressFile, whole, where explorers find it.
func (a address) write(dir string) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, AddressFile)
	if err := failAddress.Hit(path); err != nil {
		return err
	}
	return durable.WriteSecret(path, data)
}

func readAddress(path string) (a address, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// Place is where an explorer finds its trainer.
type Place interface {
	// address returns the known address. The error is temporary if there is none yet.
	address() (address, error)
	// wait returns when there may be another address, after atMost, or at the end of ctx.
	wait(ctx context.Context, atMost time.Duration)
	String() string
}

// Known reports whether a place knows the address of a trainer that has not ended. The trainer need
// not be reachable.
func Known(p Place) bool {
	_, err := p.address()
	return err == nil
}

// At returns the place of a trainer at a URL, such as http://host:port, or https://proxy/path. The
// token is the user information of the URL, or else token.
func At(join, token string) (Place, error) {
	u, err := url.Parse(join)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("--join wants the trainer's URL, such as http://host:port")
	}
	if password, ok := u.User.Password(); ok {
		token = password
	} else if u.User != nil {
		token = u.User.Username()
	}
	if token == "" {
		return nil, fmt.Errorf("--join %s: the trainer's token is missing: set TRINITY_TOKEN", u.Host)
	}
	return fixedPlace{URL: u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/"), Token: token}, nil
}

type fixedPlace address

func (p fixedPlace) address() (address, error) { return address(p), nil }
func (p fixedPlace) String() string            { return p.URL }

func (p fixedPlace) wait(ctx context.Context, atMost time.Duration) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// In returns the place of a run's directory, to which the trainer writes its address.
func In(dir string) Place { return &directory{path: filepath.Join(dir, AddressFile)} }

type directory struct {
	path string
}

func (d *directory) String() string { return d.path }

func (d *directory) address() (address, error) {
	a, err := readAddress(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return a, retry.Temporary(fmt.Errorf("no trainer has written %s", d.path))
	}
	if err != nil {
		return a, err
	}
	if a.Ended {
		return a, trinity.ErrEnded
	}
	a.URL, err = reachableURL(a)
	return a, err
}

// reachableURL returns the URL as this machine reaches it. A trainer that listens on all addresses
// is on the loopback address of its own machine; other machines reach it by its host name.
func reachableURL(a address) (string, error) {
	u, err := url.Parse(a.URL)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && !ip.IsUnspecified() || u.Hostname() != "" && ip == nil {
		return a.URL, nil
	}
	host := a.Host
	if own, err := os.Hostname(); err == nil && own == host {
		host = "127.0.0.1"
	}
	u.Host = net.JoinHostPort(host, u.Port())
	return u.String(), nil
}

// wait returns early when somebody writes the file again. If the file system reports no changes, it
// waits for the whole time.
func (d *directory) wait(ctx context.Context, atMost time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	before, _ := os.Stat(d.path)
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		<-ctx.Done()
		return
	}
	defer watcher.Close()
	if err := watcher.Add(filepath.Dir(d.path)); err != nil {
		<-ctx.Done()
		return
	}
	for {
		now, _ := os.Stat(d.path)
		if now != nil && (before == nil || !os.SameFile(before, now)) {
			return
		}
		select {
		case <-watcher.Events:
		case <-watcher.Errors:
		case <-ctx.Done():
			return
		}
	}
}
