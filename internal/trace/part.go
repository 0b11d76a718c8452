package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// Position says how much of each file of lines is read, in bytes, by the name of the file.
type Position map[string]int64

// Part is some of the spans or failed rollouts of a process, and the position behind them.
type Part[T any] struct {
	Process int // from 1 on; a run that resumes is another one
	Lines   []T
	Then    Position
}

// The sizes of a part: lines that end it, and compressed bytes that hold at least a frame.
const (
	maxPart  = 256 << 10
	maxFrame = 1 << 20
)

// NextSpans reads some spans behind a position, the oldest files first. Without new ones it returns the
// same position. An error about a damaged file comes with a position behind that file, and with its
// spans before the damage.
func NextSpans(dir string, from Position) (Part[Span], error) {
	return nextPart(dir, spansPrefix, from, parseSpan)
}

// BeforeNewest returns the position before the newest file of spans, for a reader who leaves out what processes
// wrote before. It is nil without a trace.
func BeforeNewest(dir string) (Position, error) {
	files, err := linesIn(dir, spansPrefix)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	at := Position{}
	for _, old := range files[:max(0, len(files)-1)] {
		if info, err := os.Stat(old.path); err == nil { // else it was thinned out
			at[filepath.Base(old.path)] = info.Size()
		}
	}
	return at, nil
}

// NextFailures reads some failed rollouts behind a position, as [NextSpans] reads spans.
func NextFailures(dir string, from Position) (Part[Failure], error) {
	part, err := nextPart(dir, failedPrefix, from, parseFailure)
	part.Lines = failedIn(part.Lines)
	return part, err
}

func nextPart[T any](dir, prefix string, from Position, parse func([]byte, *T) error) (part Part[T], err error) {
	part.Then = Position{}
	files, err := linesIn(dir, prefix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return part, err
	}
	for _, file := range files { // files that were thinned out are forgotten
		if at, ok := from[filepath.Base(file.path)]; ok {
			part.Then[filepath.Base(file.path)] = at
		}
	}
	for _, file := range files {
		name := filepath.Base(file.path)
		part.Process = file.process
		end, err := eachLine(file.path, part.Then[name], maxPart, appended(&part.Lines, parse))
		if end > part.Then[name] {
			part.Then[name] = end
			return part, err
		}
		if err != nil {
			return part, err
		}
	}
	return part, nil
}

// appended returns a visitor of lines that appends what they say.
func appended[T any](all *[]T, parse func([]byte, *T) error) func(line []byte) error {
	var one T
	return func(line []byte) error {
		err := parse(line, &one)
		if err == nil {
			*all = append(*all, one)
		}
		return err
	}
}

// eachLine visits the lines of the whole frames of a file from an offset on, and returns where to go on.
// It stops behind the frame whose lines reach a number of bytes, most. In a damaged file, where to go on
// is the end of the file.
func eachLine(path string, from int64, most int, visit func(line []byte) error) (end int64, err error) {
	file, size, err := unread(path, from)
	if file == nil {
		return from, err
	}
	defer file.Close()
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return from, err
	}
	defer z.Close()
	in, end := framesOf(file, from, size), from
	var lines []byte
	for read := 0; read < most; read += len(lines) {
		frame, damage, err := nextFrame(in)
		if err != nil || damage == nil && frame == nil {
			return end, err
		}
		if damage == nil {
			lines, damage = z.DecodeAll(frame, lines[:0])
		}
		for line := range bytes.Lines(lines) {
			if damage == nil {
				damage = visit(line)
			}
		}
		if damage != nil {
			return size, fmt.Errorf("%s is damaged behind byte %d: %w", path, end, damage)
		}
		n, _ := in.Discard(len(frame)) // which it has
		end += int64(n)
	}
	return end, nil
}

// framesOf returns a reader of frames between two offsets of a file.
func framesOf(file io.ReaderAt, from, to int64) *bufio.Reader {
	return bufio.NewReaderSize(io.NewSectionReader(file, from, to-from), int(min(to-from, maxFrame)))
}

// nextFrame returns the next frame of in; nil if its end is missing. damage says what is wrong with the
// file's content, and err that reading it failed.
func nextFrame(in *bufio.Reader) (frame []byte, damage, err error) {
	for size := maxHeld; ; size *= 2 {
		data, err := in.Peek(size)
		n, damage := frameSize(data)
		switch {
		case damage != nil || n > 0:
			return data[:n], damage, nil
		case errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull):
			return nil, nil, nil
		case err != nil:
			return nil, nil, err
		case size == maxFrame:
			return nil, errors.New("a frame is too long"), nil
		}
	}
}

// frameSize returns the size of the frame with which data begins, 0 if its end is missing.
func frameSize(data []byte) (int, error) {
	var h zstd.Header
	if err := h.Decode(data); errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	const last, kinds, runLength, reserved = 1, 3, 1, 3
	for n := h.HeaderSize; n+3 <= len(data); {
		block := int(data[n]) | int(data[n+1])<<8 | int(data[n+2])<<16
		size := block >> 3
		switch block >> 1 & kinds {
		case runLength:
			size = 1
		case reserved:
			return 0, errors.New("a block has no kind")
		}
		n += 3 + size
		if block&last == 0 {
			continue
		}
		if h.HasCheckSum {
			n += 4
		}
		if n > len(data) {
			break
		}
		return n, nil
	}
	return 0, nil
}
