package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Table has the spans of a trace in little memory. It is read further as the trace grows.
type Table struct {
	Words     []string // of all names, by number
	numbers   map[string]int32
	processes []*spanProcess        // by number
	files     map[string]*tableFile // by name
}

// Compact is a span whose words have numbers. Times are µs since 1970.
type Compact struct {
	Begin, End, Step, Version int64
	Role, Kind, Name, For, ID int32
}

// spanProcess is what one process wrote.
type spanProcess struct {
	Number int
	Spans  []Compact
	life[int32]
}

// tableFile tells what of a file is read.
type tableFile struct {
	Offset   int64
	Sum      uint32 // of the last bytes before it
	Damage   string
	Size     int64 // of the file with the damage
	Modified int64 // time of that file, ns since 1970
}

const (
	framesAtOnce = 64      // that are in memory as they were written
	maxGrow      = 1 << 20 // spans for which there is room before they come
)

// sumSize is how many bytes before an offset must be the same for a file to be the one that it was.
const sumSize = 4 << 10

// Update reads what a trace has got. It reports whether anything is new, and lines about what cannot be
// read; of a damaged file there is what comes before the damage.
func (t *Table) Update(dir string) (isNew bool, damaged []string, err error) {
	files, err := linesIn(dir, spansPrefix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, nil, err
	}
	if !t.isOf(files) {
		*t, isNew = Table{}, true
	}
	if t.files == nil {
		t.files = map[string]*tableFile{}
	}
	defer func() { t.numbers = nil }()
	for _, file := range files {
		name := filepath.Base(file.path)
		if t.files[name] == nil {
			t.files[name] = &tableFile{}
		}
		grown, err := t.read(file, t.files[name])
		if err != nil {
			return isNew, nil, err
		}
		isNew = isNew || grown
		if line := t.files[name].Damage; line != "" {
			damaged = append(damaged, line)
		}
	}
	return isNew, damaged, nil
}

// isOf reports whether a trace with these files still has all that was read.
func (t *Table) isOf(files []linesFile) bool {
	there := map[string]bool{}
	for _, file := range files {
		there[filepath.Base(file.path)] = true
		known := t.files[filepath.Base(file.path)]
		if known != nil && known.Offset > 0 {
			if sum, err := sumAt(file.path, known.Offset); err != nil || sum != known.Sum {
				return false
			}
		}
		if known != nil && known.Damage != "" { // somebody may have copied the file again
			info, err := os.Stat(file.path)
			if err != nil || info.Size() != known.Size || info.ModTime().UnixNano() != known.Modified {
				return false
			}
		}
	}
	for name := range t.files {
		if !there[name] { // thinned out
			return false
		}
	}
	return true
}

func sumAt(path string, offset int64) (uint32, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	text := make([]byte, min(offset, sumSize))
	_, err = file.ReadAt(text, offset-int64(len(text)))
	return crc32.ChecksumIEEE(text), err
}

// read reads the whole frames that a file has got.
func (t *Table) read(lines linesFile, known *tableFile) (grown bool, err error) {
	if known.Damage != "" {
		return false, nil
	}
	file, size, err := unread(lines.path, known.Offset)
	if file == nil {
		return false, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	var damage, readErr error
	offset, in, p := known.Offset, framesOf(file, known.Offset, size), t.process(lines.process)
	for first := true; damage == nil && readErr == nil; first = false {
		var frames [][]byte
		frames, damage, readErr = someFrames(in)
		if len(frames) == 0 {
			break
		}
		for i, b := range parseAll(frames) {
			if first && i == 0 { // the other frames are about as long
				p.Spans = slices.Grow(p.Spans, int(min((size-offset)/int64(len(frames[0]))*int64(len(b.spans)), maxGrow)))
			}
			t.add(p, &b)
			if b.err != nil {
				damage = b.err
				break
			}
			offset += int64(len(frames[i]))
		}
	}
	if damage != nil {
		known.Size, known.Modified = size, info.ModTime().UnixNano()
		known.Damage = fmt.Sprintf("%s is damaged behind byte %d: %s", lines.path, offset, strings.ReplaceAll(damage.Error(), "\n", " "))
	}
	if grown = offset > known.Offset || damage != nil; offset > known.Offset {
		known.Offset = offset
		known.Sum, err = sumAt(lines.path, offset)
	}
	return grown, errors.Join(readErr, err)
}

// someFrames returns the next frames of a file; none at its end.
func someFrames(in *bufio.Reader) (frames [][]byte, damage, err error) {
	for len(frames) < framesAtOnce {
		frame, damage, err := nextFrame(in)
		if frame == nil || damage != nil {
			return frames, damage, err
		}
		frames = append(frames, slices.Clone(frame))
		_, _ = in.Discard(len(frame)) // which it has
	}
	return frames, nil, nil
}

func (t *Table) process(number int) *spanProcess {
	i, ok := slices.BinarySearchFunc(t.processes, number, func(p *spanProcess, number int) int { return p.Number - number })
	if !ok { // an older process may have its first spans later
		t.processes = slices.Insert(t.processes, i, &spanProcess{Number: number})
	}
	return t.processes[i]
}

// add adds the spans of a frame.
func (t *Table) add(p *spanProcess, b *block) {
	if t.numbers == nil {
		t.numbers = make(map[string]int32, len(t.Words))
		for i, word := range t.Words {
			t.numbers[word] = int32(i)
		}
	}
	words := make([]int32, len(b.words))
	for i, word := range b.words {
		n, ok := t.numbers[word]
		if !ok {
			n = int32(len(t.Words))
			t.numbers[word], t.Words = n, append(t.Words, word)
		}
		words[i] = n
	}
	for _, s := range b.spans {
		isDone := does(b.words[s.Kind])
		s.Role, s.Kind, s.Name, s.For, s.ID = words[s.Role], words[s.Kind], words[s.Name], words[s.For], words[s.ID]
		p.add(s.Role, s.Step, isDone, s.Begin, s.End)
		p.Spans = append(p.Spans, s)
	}
}

// Spans returns the spans in the order in which each process wrote them. If a run was killed and has
// resumed, the steps that it did again replace what the killed process did of them. The spans must not
// be changed.
func (t *Table) Spans() (all []Compact) {
	if len(t.processes) == 1 {
		return t.processes[0].Spans
	}
	for i, p := range t.processes {
		for _, s := range p.Spans {
			if !slices.ContainsFunc(t.processes[i+1:], func(later *spanProcess) bool { return later.replaces(&p.life, s.Role, s.Step) }) {
				all = append(all, s)
			}
		}
	}
	return all
}

// block is the spans of a frame, with words of their own.
type block struct {
	words []string
	spans []Compact
	err   error
}

// parseAll decodes frames, several at once.
func parseAll(frames [][]byte) []block {
	blocks := make([]block, len(frames))
	next := make(chan int, len(frames))
	for i := range frames {
		next <- i
	}
	close(next)
	var parsing sync.WaitGroup
	for range min(len(frames), runtime.GOMAXPROCS(0)) {
		parsing.Go(func() {
			z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
			if err == nil {
				defer z.Close()
			}
			var lines []byte
			for i := range next {
				if err == nil {
					lines, blocks[i].err = z.DecodeAll(frames[i], lines[:0])
				}
				if blocks[i].err = errors.Join(err, blocks[i].err); blocks[i].err == nil {
					blocks[i].parse(lines)
				}
			}
		})
	}
	parsing.Wait()
	return blocks
}

// parse reads lines until one that is no span.
func (b *block) parse(lines []byte) {
	numbers := map[string]int32{}
	b.spans = make([]Compact, 0, len(lines)/100)
	var last [5]int32 // the words of the span before
	var texts [5][]byte
	var slow Span
	for line := range bytes.Lines(lines) {
		if line[len(line)-1] != '\n' {
			break
		}
		var s Compact
		p := parser{line, true}
		if p.fields(&texts, &s.Step, &s.Version, &s.Begin, &s.End); !p.ok {
			slow = Span{}
			if b.err = json.Unmarshal(line, &slow); b.err != nil {
				return
			}
			s.Step, s.Version, s.Begin, s.End = slow.Step, slow.Version, slow.Begin, slow.End
			texts = [5][]byte{[]byte(slow.Role), []byte(slow.Kind), []byte(slow.Name), []byte(slow.For), []byte(slow.ID)}
		}
		for i, text := range texts {
			if len(b.words) > 0 && b.words[last[i]] == string(text) {
				continue
			}
			n, ok := numbers[string(text)]
			if !ok {
				n = int32(len(b.words))
				word := string(text)
				numbers[word], b.words = n, append(b.words, word)
			}
			last[i] = n
		}
		s.Role, s.Kind, s.Name, s.For, s.ID = last[0], last[1], last[2], last[3], last[4]
		s.End = max(s.Begin, s.End) // the clock may have been set
		b.spans = append(b.spans, s)
	}
}
