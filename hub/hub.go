// Package hub fetches models and datasets by name from the Hugging Face hub, servers compatible with it, and
// ModelScope, into the cache that huggingface_hub uses, so that both find what the other has fetched.
//
// The environment is huggingface_hub's: HF_ENDPOINT, HF_TOKEN (or the file HF_HOME/token), HF_HOME, HF_HUB_CACHE,
// HF_HUB_OFFLINE; and MODELSCOPE_ENDPOINT. A token is sent to the hub itself and never to where it redirects.
package hub

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The hubs' own addresses, unless the environment names others.
const (
	defaultHuggingFace = "https://huggingface.co"
	defaultModelScope  = "https://www.modelscope.cn"
)

// Options say how to pull.
type Options struct {
	Revision string         // branch, tag or commit; empty means the name's own or the default branch
	Progress func(Progress) // told about every file now and then, one call at a time; may be nil
}

// Progress is how far a pull has come.
type Progress struct {
	File        string // path inside the repository
	Done, Total int64  // bytes of this file

	AllDone, AllTotal int64 // bytes of all files, those already in the cache included
}

// Pull fetches what a name such as "org/name", "org/name@revision", "hf://datasets/org/name" or
// "modelscope://org/name" means and returns the directory that holds it: of models the JSON, safetensors and tokenizer files at the
// top, of datasets all data files and the README.md that says what they are. What is in the cache is not fetched again; a download cut off goes on
// where it stopped; sizes and SHA-256 sums are verified. If the hub cannot be reached, a complete copy in the cache serves.
func Pull(ctx context.Context, name string, o Options) (dir string, err error) {
	return fromEnvironment().pull(ctx, name, o)
}

// Cached returns the directory of a complete copy in the cache, if there is one. It uses no network.
func Cached(name string) (dir string, ok bool) {
	repo, err := parseName(name)
	if err != nil {
		return "", false
	}
	return fromEnvironment().cached(repo)
}

// IsName reports whether a text has the form org/name, with or without a scheme. Pull also takes the old names without an organisation,
// which cannot be told from files.
func IsName(name string) bool {
	_, err := parseName(name)
	return err == nil && strings.Contains(name, "/")
}

// client is the environment of a pull.
type client struct {
	http        *http.Client
	huggingFace string // endpoint without trailing slash
	modelScope  string
	token       string
	cache       string // directory
	offline     bool
	backoff     time.Duration // before the second attempt; doubles from then on
	stall       time.Duration // a connection that gives nothing for so long is given up
}

const attempts = 6

func fromEnvironment() *client {
	c := &client{
		http:        newHTTPClient(),
		huggingFace: endpoint("HF_ENDPOINT", defaultHuggingFace),
		modelScope:  endpoint("MODELSCOPE_ENDPOINT", defaultModelScope),
		token:       strings.TrimSpace(os.Getenv("HF_TOKEN")),
		cache:       os.Getenv("HF_HUB_CACHE"),
		backoff:     time.Second,
		stall:       time.Minute,
	}
	home := hfHome()
	if c.cache == "" {
		c.cache = filepath.Join(home, "hub")
	}
	if c.token == "" {
		text, _ := os.ReadFile(filepath.Join(home, "token")) // no file, no token
		c.token = strings.TrimSpace(string(text))
	}
	switch strings.ToUpper(os.Getenv("HF_HUB_OFFLINE")) {
	case "1", "ON", "YES", "TRUE":
		c.offline = true
	}
	return c
}

func endpoint(variable, standard string) string {
	if value := os.Getenv(variable); value != "" {
		return strings.TrimRight(value, "/")
	}
	return standard
}

func hfHome() string {
	if home := os.Getenv("HF_HOME"); home != "" {
		return home
	}
	if cache := os.Getenv("XDG_CACHE_HOME"); cache != "" {
		return filepath.Join(cache, "huggingface")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "."
	}
	return filepath.Join(home, ".cache", "huggingface")
}

// newHTTPClient follows redirects, but takes the token off as soon as one leads away from the first server.
func newHTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = time.Minute
	return &http.Client{Transport: transport, CheckRedirect: func(request *http.Request, via []*http.Request) error {
		if len(via) > 10 {
			return http.ErrUseLastResponse
		}
		if first := via[0].URL; request.URL.Host != first.Host || request.URL.Scheme != first.Scheme {
			if request.Method == http.MethodHead {
				return http.ErrUseLastResponse // the redirect itself describes the file; its target may answer GET alone
			}
			request.Header.Del("Authorization")
		}
		return nil
	}}
}
