package weights

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/serve/web"
	"github.com/trinity-go/trinity/internal/wire/files"
)

var failFound = failpoint.New("remote.version") // before the trainer replies which version a sampler is to load

// pollWindow bounds how long the trainer holds a request that waits for a version. The follower
// then sends the request again.
const pollWindow = 20 * time.Second

// Version names the weights of a version. Digest is that of its files (files.List).
type Version struct {
	Number int64  `json:"version"`
	Digest string `json:"digest"`
}

// manifest is the reply to the question which version to load.
type manifest struct {
	Version
	Files []files.File `json:"files"`
	Ended bool         `json:"ended,omitempty"` // the trainer never publishes such a version
}

// Handler serves the versions. At the end of ctx it answers all requests that wait for a version.
//
//	GET /v1/versions?min=…&unlike=…&newest=…   the version to load; 204 if there is none yet
//	GET /v1/versions/{version}/{file}          a file of a version
func (s *Shelf) Handler(ctx context.Context, refuse func(w http.ResponseWriter, status int, err error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/versions", func(w http.ResponseWriter, r *http.Request) {
		min, err := strconv.ParseInt(r.FormValue("min"), 10, 64)
		if err != nil {
			refuse(w, http.StatusBadRequest, fmt.Errorf("not understood: min: %w", err))
			return
		}
		waiting, cancel := context.WithTimeout(r.Context(), pollWindow)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		found, err := s.find(waiting, min, r.FormValue("unlike"), r.FormValue("newest") == "true")
		if err != nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if err := failFound.Hit(""); err != nil {
			refuse(w, http.StatusInternalServerError, err)
			return
		}
		web.WriteJSON(w, http.StatusOK, found)
	})
	mux.HandleFunc("GET /v1/versions/{version}/{file...}", func(w http.ResponseWriter, r *http.Request) {
		version, err := strconv.ParseInt(r.PathValue("version"), 10, 64)
		path, ok := s.file(version, r.PathValue("file"))
		if err != nil || !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(w, r, path)
	})
	return mux
}

// find waits for a version ≥ min whose digest is not unlike. It returns the oldest one if s.Oldest
// is set and newest is not; otherwise it returns the newest. The error is the end of ctx.
func (s *Shelf) find(ctx context.Context, min int64, unlike string, newest bool) (found manifest, err error) {
	var ok bool
	err = s.changed.Await(ctx, &s.mu, func() bool {
		if s.Oldest && !newest {
			found, ok = s.oldest(min)
		} else {
			found, ok = s.newest(min)
		}
		ok = ok && found.Digest != unlike
		return ok || s.ended
	})
	if err != nil {
		return manifest{}, err
	}
	defer s.mu.Unlock()
	if !ok {
		return manifest{Ended: true}, nil
	}
	return found, nil
}

// oldest returns the oldest version ≥ min. The lock is held.
func (s *Shelf) oldest(min int64) (manifest, bool) {
	for _, m := range s.versions {
		if m.Number >= min {
			return m, true
		}
	}
	return manifest{}, false
}

// newest returns the newest version if it is ≥ min. The lock is held.
func (s *Shelf) newest(min int64) (manifest, bool) {
	if n := len(s.versions); n > 0 && s.versions[n-1].Number >= min {
		return s.versions[n-1], true
	}
	return manifest{}, false
}

// file returns the path of a file of a version. A request can read no other files.
func (s *Shelf) file(version int64, name string) (path string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.versions {
		if m.Number == version && slices.ContainsFunc(m.Files, func(f files.File) bool { return f.Name == name }) {
			return filepath.Join(s.path(version), filepath.FromSlash(name)), true
		}
	}
	return "", false
}
