package pipeline

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/failpoint"
)

var failCopy = failpoint.New("pipeline.copy.write")

// Copy writes experiences as they came in, before any operator: a JSON object a line, in order. A file that is there is gone on with; a step
// that is explored again, because a kill threw the run back, takes the place of what the file has of it and of later ones; a file of which
// nothing would be left is moved aside first, to its name with a number behind it.
type Copy struct {
	Path string
	file *os.File // open from the first Write
}

// Write adds the groups of a step. Rewards and metrics that are no finite numbers, which JSON cannot say, are left out; such a reward is
// written as an invalid one.
func (c *Copy) Write(groups []trinity.Group) error {
	if count(groups) == 0 {
		return nil
	}
	if c.file == nil {
		if err := c.open(stepOf(groups)); err != nil {
			return err
		}
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	for _, g := range groups {
		for _, e := range g {
			if err := enc.Encode(sayable(e)); err != nil {
				return fmt.Errorf("experience %s as JSON: %w", e.ID, err)
			}
		}
	}
	_, err := failCopy.Write(c.file, c.Path, text.Bytes())
	return err
}

// open opens the file and cuts it before the given step. A file of which nothing would be left may be another run's: it is moved aside.
func (c *Copy) open(step int64) error {
	if err := os.MkdirAll(filepath.Dir(c.Path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(c.Path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	end, err := before(f, step)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", c.Path, err), f.Close())
	}
	if at, err := f.Stat(); err == nil && end == 0 && at.Size() > 0 {
		if err := errors.Join(f.Close(), os.Rename(c.Path, unusedName(c.Path))); err != nil {
			return err
		}
		c.file, err = os.Create(c.Path)
		return err
	}
	if _, err := f.Seek(end, io.SeekStart); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Truncate(end); err != nil {
		return errors.Join(err, f.Close())
	}
	c.file = f
	return nil
}

// unusedName is path with the first number behind it that no file has.
func unusedName(path string) string {
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s.%d", path, i)
		if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
			return name
		}
	}
}

// before is where the first line begins that is of the step, of a later one or not whole.
func before(r io.Reader, step int64) (int64, error) {
	lines, end := bufio.NewReaderSize(r, 1<<20), int64(0)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return 0, err
		}
		var e struct {
			ID *trinity.ExperienceID `json:"id"`
		}
		if err := json.Unmarshal(line, &e); err != nil || e.ID == nil {
			return 0, fmt.Errorf("byte %d is not the beginning of an experience: move the file away, or set another input_save_path", end)
		}
		if e.ID.Step >= step {
			return end, nil
		}
		end += int64(len(line))
	}
}

// Close ends the copy.
func (c *Copy) Close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

// sayable is the experience with nothing in its numbers that JSON has no word for.
func sayable(e *trinity.Experience) *trinity.Experience {
	out := *e
	if !finite(e.Reward.Value) {
		out.Reward = trinity.InvalidReward(fmt.Sprintf("the reward is %v", e.Reward.Value))
	}
	out.Reward.Parts, out.Metrics = finiteOf(out.Reward.Parts), finiteOf(e.Metrics)
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
