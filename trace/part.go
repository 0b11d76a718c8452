package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

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
	return nextPart[Span](dir, spansPrefix, from)
}

// NextFailures reads some failed rollouts behind a position, as [NextSpans] reads spans.
func NextFailures(dir string, from Position) (Part[Failure], error) {
	part, err := nextPart[Failure](dir, failedPrefix, from)
	part.Lines = slices.DeleteFunc(part.Lines, func(f Failure) bool { return f.Kind == "" })
	return part, err
}

func nextPart[T any](dir, prefix string, from Position) (part Part[T], err error) {
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
		var end int64
		part.Lines, end, err = readPart[T](file.path, part.Then[name])
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

// readPart reads whole frames of a file from an offset on, and returns where to go on.
func readPart[T any](path string, from int64) (all []T, end int64, err error) {
	file, size, err := unread(path, from)
	if file == nil {
		return nil, from, err
	}
	defer file.Close()
	damaged := func(why error) error { return fmt.Errorf("%s is damaged behind byte %d: %w", path, end, why) }
	data, err := io.ReadAll(io.NewSectionReader(file, from, maxFrame))
	if err != nil {
		return nil, from, err
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return nil, from, err
	}
	defer z.Close()
	end = from
	for read := 0; read < maxPart; {
		frame, err := frameSize(data)
		if err == nil && frame == 0 && len(data) == maxFrame {
			err = errors.New("a frame is too long")
		}
		if err != nil {
			return all, size, damaged(err)
		}
		if frame == 0 {
			break
		}
		lines, err := z.DecodeAll(data[:frame], nil)
		if err != nil {
			return all, size, damaged(err)
		}
		for line := range bytes.Lines(lines) {
			var s T
			if err := json.Unmarshal(line, &s); err != nil {
				return all, size, damaged(err)
			}
			all = append(all, s)
		}
		data, end, read = data[frame:], end+int64(frame), read+len(lines)
	}
	return all, end, nil
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
