package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/term"

	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/dataset"
	"github.com/trinity-go/trinity/internal/database"
)

// reader opens the data of a stage.
type reader struct {
	*Settled
	say func(string) // for people
}

// openDataset opens the rows of a section of the configuration; progress is its enable_progress_bar.
func (s *reader) openDataset(ctx context.Context, path string, opts dataset.Options, progress bool) (*dataset.Dataset, error) {
	opts.Resolve = func(name string) (string, error) { return resolveDataset(ctx, name) }
	opts.Scratch, opts.Note = filepath.Join(s.Buffer.CacheDir, "datasets"), s.say
	if progress {
		m := newMeter("reading ", s.say)
		opts.Progress = func(file string, done, total int64) { m.told(filepath.Base(file), done, total) }
	}
	return openRows(ctx, path, opts)
}

// openRows opens a dataset, which must have rows.
func openRows(ctx context.Context, path string, opts dataset.Options) (*dataset.Dataset, error) {
	d, err := dataset.Open(ctx, path, opts)
	if err == nil && d.Len() == 0 {
		err = fmt.Errorf("dataset %s has no rows", database.Hidden(path))
	}
	return d, err
}

// rowsOf says where in its path a section's rows are. The table of a database is called like the section, as Trinity-RFT has it, unless there is a subset.
func rowsOf(path, split, subset, name string, retries, seconds int) dataset.Options {
	o := dataset.Options{Split: split, Subset: subset}
	if database.IsURL(path) {
		o.Subset = first(subset, name)
		o.Retries, o.RetryInterval = retries, time.Duration(seconds)*time.Second
	}
	return o
}

// bufferRows says where in its path the rows of a buffer are that is a dataset.
func bufferRows(b *config.ExperienceBuffer) dataset.Options {
	return rowsOf(b.Path, b.Split, b.SubsetName, b.Name, b.MaxRetryTimes, b.MaxRetryInterval)
}

// meter shows how much of something long is done: a line that changes on a terminal, else a line every ten seconds. What takes less than a
// second is not long.
type meter struct {
	doing string
	bar   io.Writer // a terminal, or nil
	say   func(string)
	now   func() time.Time

	file        string
	begun, last time.Time
	drawn       bool
}

// newMeter shows on a terminal, if there is one.
func newMeter(doing string, say func(string)) *meter {
	m := &meter{doing: doing, say: say, now: time.Now}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		m.bar = os.Stderr
	}
	return m
}

func (m *meter) told(file string, done, total int64) {
	now := m.now()
	if file != m.file {
		m.file, m.begun, m.last = file, now, now
	}
	every := 10 * time.Second
	if m.bar != nil {
		every = time.Second
	}
	long, over := now.Sub(m.last) >= every, done >= total
	if !long && !(over && m.drawn) {
		return
	}
	m.last = now
	text := fmt.Sprintf("%s%s: %d %%, %s", m.doing, file, 100*done/max(1, total), now.Sub(m.begun).Round(time.Second))
	if m.bar == nil {
		m.say(text)
		return
	}
	m.drawn = !over
	end := "\x1b[K" // what the line before had more
	if over {
		end += "\n"
	}
	_, _ = io.WriteString(m.bar, "\r"+text+end) // a terminal that is gone is no reason to end a run
}
