package studio

import (
	"net/http"
	"strconv"

	"github.com/trinity-go/trinity/internal/rundir"
)

// image answers with an image that a run keeps. Its digest is its name, so the browser need not ask
// for it again.
func (s *traces) image(w http.ResponseWriter, r *http.Request) error {
	f, err := s.runs.open(r.PathValue("run"))
	if err != nil {
		return err
	}
	file, err := s.readImage(r, f, r.PathValue("digest"))
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "image/png")
	h.Set("Content-Length", strconv.Itoa(len(file)))
	h.Set("Cache-Control", "private,max-age=31536000,immutable")
	_, _ = w.Write(file) // the client may be gone
	return nil
}

// readImage reads an image in turn with the requests that read train steps.
func (s *traces) readImage(r *http.Request, f *runFiles, digest string) ([]byte, error) {
	if err := s.turns.Acquire(r.Context(), 1); err != nil { // who asked has gone
		return nil, err
	}
	defer s.turns.Release(1)
	file, err := rundir.ReadImage(f.dir, digest)
	if err != nil {
		return nil, notFound{err}
	}
	return file, nil
}
