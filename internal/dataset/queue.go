package dataset

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/wait"
)

// Queue is a JSON Lines file that another process appends rows to while a run takes them. The file
// may come into being later. A row is a line that ends with a line feed; the line null ends the
// queue. The rows stay on the disk, and memory holds 16 bytes for each. A Queue is safe for
// concurrent use.
type Queue struct {
	path    string
	timeout time.Duration
	note    func(line string)

	mu    sync.Mutex
	rows  []queued
	line  int       // of the last row; 1 before the first
	last  [32]byte  // sum of the last row
	sum   hash.Hash // of the rows
	ended bool      // null was read
	size  int64     // of the file when it was last read
	half  bool      // whether its last line had no line feed then
}

// NewQueue returns the queue of a file, which nobody has read yet. timeout bounds how long Await
// waits for each row. note tells people what Await waits for.
func NewQueue(path string, timeout time.Duration, note func(line string)) *Queue {
	return &Queue{path: path, timeout: timeout, note: note, line: 1, sum: sha256.New()}
}

// queued is a row of a queue.
type queued struct {
	end    int64   // byte after it
	digest [8]byte // of all rows up to it
}

// pollQueue is the time between two looks at the file.
const pollQueue = 250 * time.Millisecond

// patient is how long Await waits before it tells people.
const patient = 10 * time.Second

// Extend reads the rows that were appended since the last call. An error names the file and line of
// what is no row; rows before it are there.
func (q *Queue) Extend() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	info, err := os.Stat(q.path)
	if errors.Is(err, fs.ErrNotExist) && q.size == 0 {
		return nil
	}
	if err == nil {
		err = checkRegular(info)
	}
	switch {
	case err != nil:
		return fmt.Errorf("queue of tasks %s: %w", q.path, err)
	case info.Size() < q.end():
		return fmt.Errorf("queue of tasks %s: it has become shorter than the %d rows that were read from it: "+leave, q.path, len(q.rows))
	case info.Size() == q.size:
		return nil
	}
	f, err := os.Open(q.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := q.read(f, info.Size()); err != nil {
		return inFile(q.path, err)
	}
	q.size = info.Size()
	return nil
}

// read adds the rows of the whole lines before byte size.
func (q *Queue) read(f io.ReaderAt, size int64) error {
	begin := q.end()
	if err := q.checkLast(f); err != nil {
		return err
	}
	whole, err := afterLastLine(f, begin, size)
	if err != nil {
		return err
	}
	q.half = size > whole
	if size-whole > maxRow {
		return fmt.Errorf("%s: its last line: %w", q.path, errLong)
	}
	ended := false
	err = scanLines(io.NewSectionReader(f, begin, whole-begin), q.line, func(at int64, number int, data []byte) error {
		if ended {
			return &lineError{number, errors.New("follows the line null, which ends the queue: remove that line")}
		}
		if string(data) == "null" {
			ended = true
			return nil
		}
		if err := checkForm(data); number == 1 && err != nil {
			return err
		}
		if err := checkRow(data); err != nil {
			if isBegun(data) && !json.Valid(data) {
				err = fmt.Errorf("%w: a row is one line", err)
			}
			return &lineError{number, err}
		}
		q.sum.Write(data)
		q.sum.Write([]byte("\n"))
		q.last = sha256.Sum256(data)
		q.rows, q.line = append(q.rows, queued{begin + at + int64(len(data)), [8]byte(q.sum.Sum(nil))}), number
		return nil
	})
	q.ended = ended && err == nil
	return err
}

// leave says what a user has to do about rows that changed.
const leave = "append rows, and leave those before them as they are"

// checkLast returns an error if the last row has changed: another file may have taken the place of the
// one that was read.
func (q *Queue) checkLast(f io.ReaderAt) error {
	if len(q.rows) == 0 {
		return nil
	}
	begin, end := q.span(len(q.rows) - 1)
	data, err := q.text(f, begin, end)
	if err == nil && sha256.Sum256(data) != q.last {
		err = errors.New("the row is no longer what it was when it came: " + leave)
	}
	if err != nil {
		return &lineError{q.line, err}
	}
	return nil
}

// text reads a row.
func (q *Queue) text(f io.ReaderAt, begin, end int64) ([]byte, error) {
	data, err := readAt(f, begin, end-begin)
	if begin == 0 {
		data = bytes.TrimPrefix(data, byteOrderMark)
	}
	return bytes.Trim(data, space), err
}

// end returns the byte after the last row.
func (q *Queue) end() int64 {
	if len(q.rows) == 0 {
		return 0
	}
	return q.rows[len(q.rows)-1].end
}

// afterLastLine returns the byte after the last line feed between two bytes, or the first of them if
// there is none.
func afterLastLine(f io.ReaderAt, begin, end int64) (int64, error) {
	const part = 64 << 10
	for end > begin {
		from := max(begin, end-part)
		data, err := readAt(f, from, end-from)
		if err != nil {
			return 0, err
		}
		if at := bytes.LastIndexByte(data, '\n'); at >= 0 {
			return from + int64(at) + 1, nil
		}
		end = from
	}
	return begin, nil
}

// Len returns the number of rows that are there.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.rows)
}

// Await waits until there are n rows, or until the queue has ended. The wait for each row is
// bounded by the queue's timeout.
func (q *Queue) Await(ctx context.Context, n int) error {
	begin, had := time.Now(), q.Len()
	told := false
	for {
		if err := q.Extend(); err != nil {
			return err
		}
		rows, ended := q.state()
		if rows >= n || ended {
			return nil
		}
		if rows > had {
			begin, had = time.Now(), rows
		}
		waited := time.Since(begin)
		if waited > q.timeout {
			return fmt.Errorf("queue of tasks %s: no row came within %s (max_read_timeout): it has %s, and the step wants row %d: "+
				"append rows and resume, or append a line null, which ends the run", q.path, wait.Text(q.timeout), q.contents(), n)
		}
		if waited > patient && !told {
			q.note(fmt.Sprintf("waits for tasks: %s has %s, and the step wants row %d; it waits at most %s for each",
				q.path, q.contents(), n, wait.Text(q.timeout)))
			told = true
		}
		select {
		case <-time.After(min(pollQueue, q.timeout)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// contents returns, for people, what the file has.
func (q *Queue) contents() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	text := fmt.Sprintf("%d rows", len(q.rows))
	if q.half {
		text += " and a last line without its line feed"
	}
	return text
}

// Ended reports whether the queue has ended, so that no more rows come.
func (q *Queue) Ended() bool {
	_, ended := q.state()
	return ended
}

func (q *Queue) state() (rows int, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.rows), q.ended
}

// Digest returns a sum of the first n rows, which must be there. A file with other rows in their
// place has another.
func (q *Queue) Digest(n int) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n == 0 {
		return ""
	}
	return hex.EncodeToString(q.rows[n-1].digest[:])
}

// Resume returns an error unless the first n rows are there and have this digest.
func (q *Queue) Resume(n int, digest string) error {
	const hint = "put the rows back as they were, or start a new run"
	switch have := q.Len(); {
	case have < n:
		return fmt.Errorf("queue of tasks %s: it has %d rows, and the run has taken %d: %s", q.path, have, n, hint)
	case q.Digest(n) != digest:
		return fmt.Errorf("queue of tasks %s: its first %d rows are no longer those that the run has taken: %s", q.path, n, hint)
	}
	return nil
}

// Row decodes row i, from 0.
func (q *Queue) Row(i int) (map[string]any, error) {
	begin, end, err := q.place(i)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(q.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := q.text(f, begin, end)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.path, err)
	}
	row, err := decodeRow(data)
	if err != nil {
		return nil, fmt.Errorf("%s: the row is no longer what it was when it came: %w", q.Where(i), err)
	}
	return row, nil
}

// place returns where the line of a row begins, after blank lines, and where the row ends.
func (q *Queue) place(i int) (begin, end int64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i < 0 || i >= len(q.rows) {
		return 0, 0, fmt.Errorf("queue of tasks %s has no row %d: it has %d rows", q.path, i, len(q.rows))
	}
	begin, end = q.span(i)
	return begin, end, nil
}

// span is place for a row that is there. The lock is held.
func (q *Queue) span(i int) (begin, end int64) {
	if i > 0 {
		begin = q.rows[i-1].end
	}
	return begin, q.rows[i].end
}

// Where returns the file and line of row i, for errors. It counts lines from the beginning.
func (q *Queue) Where(i int) string {
	_, end, err := q.place(i)
	if err != nil {
		return q.path
	}
	f, err := os.Open(q.path)
	if err != nil {
		return q.path
	}
	defer f.Close()
	c := lineCounter{line: 1}
	if _, err := io.Copy(&c, io.NewSectionReader(f, 0, end)); err != nil {
		return q.path
	}
	return place(q.path, "line", c.line)
}

func (q *Queue) folder(int) string { return filepath.Dir(q.path) }

// lineCounter counts lines.
type lineCounter struct{ line int }

func (c *lineCounter) Write(data []byte) (int, error) {
	c.line += bytes.Count(data, []byte("\n"))
	return len(data), nil
}
