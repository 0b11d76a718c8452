// Package hub downloads models and datasets by name from the Hugging Face hub, from servers
// compatible with it and from ModelScope. It uses the cache of huggingface_hub, so each finds the
// files that the other has downloaded.
//
// The environment variables are huggingface_hub's: HF_ENDPOINT, HF_TOKEN (or the file
// HF_HOME/token), HF_HOME, HF_HUB_CACHE and HF_HUB_OFFLINE; and MODELSCOPE_ENDPOINT. The package
// sends the token to the hub and never to a server to which the hub redirects.
package hub

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The default endpoints.
const (
	defaultHuggingFace = "https://huggingface.co"
	defaultModelScope  = "https://www.modelscope.cn"
)

// Options of [Pull].
type Options struct {
	Revision  string            // branch, tag or commit; "" takes the revision in the name, or the default branch
	Say       func(line string) // gets a line for every tenth of the download; may be nil
	NoWeights bool              // of a model take all files but the weights
}

// Pull downloads a model or dataset and returns its directory in the cache. A name is "org/name",
// "org/name@revision", "hf://datasets/org/name" or "modelscope://org/name". Of a model Pull takes
// the JSON, safetensors and tokenizer files at the top, of a dataset all data files and the
// README.md that describes them. Pull skips the files that the cache has, resumes interrupted
// downloads and verifies sizes and SHA-256 sums. If it cannot reach the hub, it returns a complete
// copy from the cache.
func Pull(ctx context.Context, name string, o Options) (dir string, err error) {
	c := fromEnvironment()
	c.noWeights = o.NoWeights
	return c.pull(ctx, name, o.Revision, lines(o.Say))
}

// Cached returns the directory of a copy in the cache; ok is false unless it is complete. It uses no
// network.
func Cached(name string) (dir string, ok bool) {
	repo, err := parseName(name)
	if err != nil {
		return "", false
	}
	return fromEnvironment().cached(repo)
}

// CachedText is Cached for a model whose weights need not be there.
func CachedText(name string) (dir string, ok bool) {
	repo, err := parseName(name)
	if err != nil {
		return "", false
	}
	repo.noWeights = true
	return fromEnvironment().cached(repo)
}

// IsName reports whether name has the form org/name, with or without a scheme. Pull also accepts
// old names without an organisation, but these look like file names.
func IsName(name string) bool {
	_, err := parseName(name)
	return err == nil && strings.Contains(name, "/")
}

// client holds the settings of a pull.
type client struct {
	http        *http.Client
	huggingFace string // endpoint without trailing slash
	modelScope  string
	token       string
	cache       string // directory
	offline     bool
	noWeights   bool          // of a model
	backoff     time.Duration // before the second attempt; doubles for each further attempt
	stall       time.Duration // the client gives up a connection that sends nothing for this long
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

// newHTTPClient returns a client that follows redirects and drops the token as soon as a redirect
// leads to another server.
func newHTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = time.Minute
	return &http.Client{Transport: transport, CheckRedirect: func(request *http.Request, via []*http.Request) error {
		if len(via) > 10 {
			return http.ErrUseLastResponse
		}
		if first := via[0].URL; request.URL.Host != first.Host || request.URL.Scheme != first.Scheme {
			if request.Method == http.MethodHead {
				return http.ErrUseLastResponse // the redirect describes the file; its target may accept only GET
			}
			request.Header.Del("Authorization")
		}
		return nil
	}}
}
