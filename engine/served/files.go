package served

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/serve/web"
	"github.com/trinity-go/trinity/internal/wire/files"
)

// fetcher is an endpoint whose server can fetch a version of the weights over HTTP.
type fetcher interface {
	fetches(ctx context.Context) bool
}

// fileServer serves the files of the newest version to servers that do not see the run's directory.
type fileServer struct {
	seconds float64 // that a server may take to fetch them
	token   string
	own     *owned // nil if the servers run already

	mu      sync.Mutex
	now     offer
	dir     string
	made    os.FileInfo          // of dir when its files were listed
	at      map[string]string    // address that listens, by the local IP
	ends    []context.CancelFunc // one for each address
	serving sync.WaitGroup
}

// offer names the files of a version. A server reads them below URL.
type offer struct {
	name, digest string
	list         []files.File
	url          string
}

func newFileServer(timeout time.Duration, own *owned) *fileServer {
	return &fileServer{seconds: timeout.Seconds(), own: own, token: rand.Text() + rand.Text(), at: map[string]string{}}
}

var failServed = failpoint.New("served.file") // before a server gets a file of a version

// offer begins to serve the files of a directory, which are the version called name, to the server at an
// address. It lists the files once for all servers.
func (f *fileServer) offer(ctx context.Context, dir, name, peer string) (offer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	address, err := f.listen(ctx, peer)
	if err != nil {
		return offer{}, fmt.Errorf("serving files to %s: %w", peer, err)
	}
	made, err := os.Stat(dir)
	if err != nil {
		return offer{}, err
	}
	// A trainer that has restarted may publish other weights as the same version.
	if f.now.name != name || !os.SameFile(made, f.made) || !made.ModTime().Equal(f.made.ModTime()) {
		list, digest, err := files.List(dir)
		if err != nil {
			return offer{}, err
		}
		f.now, f.dir, f.made = offer{name: name, digest: digest, list: list}, dir, made
	}
	o := f.now
	o.url = "http://" + address + "/" + name
	return o, nil
}

// listen returns the address at which the server at an address reaches this machine. The lock is held.
func (f *fileServer) listen(ctx context.Context, peer string) (string, error) {
	ip, err := localIP(ctx, f.own.addressOf(peer))
	if err != nil || f.at[ip] != "" {
		return f.at[ip], err
	}
	l, err := web.Listen(ctx, net.JoinHostPort(ip, "0"), f.token)
	if err != nil {
		return "", err
	}
	server := &web.Server{Handler: http.HandlerFunc(f.answer), Read: time.Minute}
	running, end := context.WithCancel(context.WithoutCancel(ctx)) // it outlives the load
	f.ends = append(f.ends, end)
	f.serving.Go(func() { _ = server.Serve(running, l) }) // the server that reads a file reports the end
	f.at[ip] = l.Addr().String()
	return f.at[ip], nil
}

// localIP returns the address of this machine from which it reaches a server.
func localIP(ctx context.Context, peer string) (string, error) {
	u, err := url.Parse(peer)
	if err != nil {
		return "", err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", net.JoinHostPort(u.Hostname(), "9")) // sends nothing
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).IP.String(), nil
}

// answer sends a file of the newest version.
func (f *fileServer) answer(w http.ResponseWriter, r *http.Request) {
	if !web.Authorized(r, f.token) {
		http.Error(w, "want the token of the run", http.StatusUnauthorized)
		return
	}
	f.mu.Lock()
	now, dir := f.now, f.dir
	f.mu.Unlock()
	for _, file := range now.list {
		if r.URL.Path != "/"+now.name+"/"+file.Name {
			continue
		}
		if err := failServed.Hit(""); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		http.ServeFile(w, r, filepath.Join(dir, filepath.FromSlash(file.Name)))
		return
	}
	http.NotFound(w, r)
}

func (f *fileServer) close() {
	f.mu.Lock()
	for _, end := range f.ends {
		end()
	}
	f.mu.Unlock()
	f.serving.Wait()
}
