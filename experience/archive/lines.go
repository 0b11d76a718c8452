package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/durable"
	"github.com/trinity-go/trinity/experience"
	"github.com/trinity-go/trinity/failpoint"
)

var (
	failWrite = failpoint.New("archive.write")
	failSync  = failpoint.New("archive.sync")
)

// lines is a file of JSON Lines.
type lines struct {
	path      string
	steps     steps
	end, size int64 // of what stays, and of what look has found
	file      *os.File
}

// steps is how the lines of a step stand in the file.
type steps interface {
	// pack makes lines what is appended to the file.
	pack(step int64, lines []byte) ([]byte, error)
	// before is where the first step begins that is the given one, a later one or not whole, which step is the last before it, and whether it is sure that all
	// of that is before it. What was never an archive is an error.
	before(r io.ReaderAt, size, step int64) (at, last int64, sure bool, err error)
}

func (l *lines) look(step, bytes int64) (found, error) {
	last, sure, err := l.keep(step)
	if err != nil {
		return found{}, fmt.Errorf("%s: %w", l.path, err)
	}
	if !sure && l.end < bytes {
		last--
	}
	return found{func(step int64) bool { return step <= last }, l.end, l.size}, nil
}

// open makes no file: one without a line is nothing that gzip or zstd reads.
func (l *lines) open() error {
	if l.end > 0 {
		return l.behind()
	}
	if l.size == 0 {
		return nil
	}
	l.size = 0
	_, err := moveAside(l.path)
	return err
}

// behind has the next step written behind what stays.
func (l *lines) behind() error {
	f, err := os.OpenFile(l.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	l.file = f
	if _, err := f.Seek(l.end, io.SeekStart); err != nil || l.end == l.size {
		return err
	}
	if err := f.Truncate(l.end); err != nil {
		return err
	}
	return durable.Sync(f)
}

// keep finds how much of what is there stays, of how many bytes, which step is its last, and whether it is sure that all of that stays.
func (l *lines) keep(step int64) (last int64, sure bool, err error) {
	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		l.end, l.size = 0, 0
		return 0, true, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, false, err
	}
	l.size = info.Size()
	l.end, last, sure, err = l.steps.before(f, l.size, step)
	return last, sure, err
}

func (l *lines) write(step int64, exps []*trinity.Experience) (bytes int64, err error) {
	text, err := jsonLines(exps)
	if err != nil {
		return 0, err
	}
	data, err := l.steps.pack(step, text)
	if err != nil {
		return 0, err
	}
	if l.file == nil {
		if err := durable.WriteFile(l.path, nil); err != nil { // its name is on the disk then
			return 0, err
		}
		if err := l.behind(); err != nil {
			return 0, err
		}
	}
	if _, err := failWrite.Write(l.file, l.file.Name(), data); err != nil {
		return 0, err
	}
	if err := failSync.Hit(l.file.Name()); err != nil {
		return 0, err
	}
	l.end += int64(len(data))
	return l.end, durable.Sync(l.file)
}

func (l *lines) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

func jsonLines(exps []*trinity.Experience) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	for _, e := range exps {
		if err := enc.Encode(sayable(e)); err != nil {
			return nil, fmt.Errorf("experience %s as JSON: %w", e.ID, err)
		}
	}
	return text.Bytes(), nil
}

// sayable is the experience with nothing in its numbers that JSON has no word for: a reward that it has none for is an invalid one, and numbers per token are left out
// together.
func sayable(e *trinity.Experience) *trinity.Experience {
	out := *e
	if !finite(e.Reward.Value) {
		out.Reward = trinity.InvalidReward(fmt.Sprintf("the reward is %v", e.Reward.Value))
	}
	out.Reward.Parts, out.Metrics = finiteOf(out.Reward.Parts), finiteOf(e.Metrics)
	out.Info, _ = experience.Sayable(e.Info)
	for _, numbers := range []*[]float32{&out.Logprobs, &out.Advantages, &out.Returns, &out.RefLogprobs, &out.TeacherLogprobs} {
		if slices.ContainsFunc(*numbers, func(v float32) bool { return !finite(float64(v)) }) {
			*numbers = nil
		}
	}
	return &out
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func finiteOf(m map[string]float64) map[string]float64 {
	var out map[string]float64
	for k, v := range m {
		if !finite(v) {
			continue
		}
		if out == nil {
			out = map[string]float64{}
		}
		out[k] = v
	}
	return out
}
