package studio

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/trinity-go/trinity/internal/cachedir"
	"github.com/trinity-go/trinity/internal/trace"
)

// traces answers with what runs have traced, and keeps what it has read of the traces that were asked for last.
type traces struct {
	runs   *runs
	turns  *semaphore.Weighted // of requests that read a train step
	texts  recent[texts]
	scores recent[map[int64]scored]
	spans  spanCache
}

// How many traces' texts of tokens and rewards stay in memory, and how many requests read a train step at once.
const (
	textsKept  = 4
	scoresKept = maxCompared
	stepReads  = 2
)

func newTraces(of *runs, disk *cachedir.Dir) *traces {
	return &traces{runs: of, turns: semaphore.NewWeighted(stepReads), spans: spanCache{disk: disk},
		texts: recent[texts]{most: textsKept}, scores: recent[map[int64]scored]{most: scoresKept}}
}

// inTurn bounds the memory of requests: each waits for its turn.
func (s *traces) inTurn(reply answer) answer {
	return func(r *http.Request) (any, error) {
		if err := s.turns.Acquire(r.Context(), 1); err != nil { // who asked has gone
			return nil, err
		}
		defer s.turns.Release(1)
		return reply(r)
	}
}

// recent has what was read of the directories that were asked for last.
type recent[T any] struct {
	most int // directories

	mu    sync.Mutex // held while one is read
	order []string
	of    map[string]T
}

// update replaces what is kept of a directory by what read returns. If too many directories are kept then, it
// drops the one that was asked for least recently.
func (r *recent[T]) update(dir string, read func(known T) (T, error)) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[string]T{}
	}
	now, err := read(r.of[dir])
	if err != nil {
		return now, err
	}
	if r.order = append(slices.DeleteFunc(r.order, func(d string) bool { return d == dir }), dir); len(r.order) > r.most {
		delete(r.of, r.order[0])
		r.order = r.order[1:]
	}
	r.of[dir] = now
	return now, nil
}

type texts struct {
	size int64
	of   map[int32]string
}

// textsIn returns the texts of the tokens of a trace. The file only grows.
func (s *traces) textsIn(dir string) (map[int32]string, error) {
	now, err := s.texts.update(dir, func(known texts) (texts, error) {
		info, err := os.Lstat(filepath.Join(dir, trace.TextsFile))
		if err != nil || known.of != nil && known.size == info.Size() {
			return known, err
		}
		of, err := trace.ReadTexts(dir)
		return texts{info.Size(), of}, err
	})
	return now.of, err
}
