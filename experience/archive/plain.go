package archive

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/trinity-go/trinity"
)

// plain is lines as they are.
type plain struct{}

func (plain) pack(_ int64, lines []byte) ([]byte, error) { return lines, nil }

// before looks at few of the lines: their steps ascend, and the search ends beside the last that is kept. It is sure of a step behind which there is a line.
func (plain) before(r io.ReaderAt, size, step int64) (end, last int64, sure bool, err error) {
	if _, err := stepAt(r, 0, size); err != nil {
		return 0, 0, false, err
	}
	var failed error
	at := sort.Search(int(size), func(at int) bool {
		begin, err := lineFrom(r, int64(at), size)
		var of int64
		if err == nil {
			of, err = stepAt(r, begin, size)
		}
		if failed == nil {
			failed = err
		}
		if err != nil || of >= step {
			return true
		}
		last = max(last, of)
		return false
	})
	if failed != nil {
		return 0, 0, false, failed
	}
	if end, err = lineFrom(r, int64(at), size); err != nil {
		return 0, 0, false, err
	}
	behind, err := stepAt(r, end, size)
	return end, last, behind != never, err
}

// lineFrom is where the first line begins at a byte or behind it; size if none does.
func lineFrom(r io.ReaderAt, at, size int64) (int64, error) {
	if at == 0 {
		return 0, nil
	}
	skipped, err := bufio.NewReader(io.NewSectionReader(r, at-1, size-at+1)).ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return size, nil
	}
	return at - 1 + int64(len(skipped)), err
}

// never is the step of a line that is not whole: it is later than any.
const never = int64(1<<63 - 1)

// stepAt is the step of the experience whose line begins at a byte.
func stepAt(r io.ReaderAt, begin, size int64) (int64, error) {
	line, err := bufio.NewReader(io.NewSectionReader(r, begin, size-begin)).ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return never, nil
	}
	if err != nil {
		return 0, err
	}
	var e struct {
		ID *trinity.ExperienceID `json:"id"`
	}
	if err := json.Unmarshal(line, &e); err != nil || e.ID == nil {
		return 0, fmt.Errorf("byte %d is not the beginning of an experience: move the file away, or set another path", begin)
	}
	return e.ID.Step, nil
}
