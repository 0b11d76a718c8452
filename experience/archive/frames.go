package archive

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// frames is lines that are compressed step by step. Every frame begins with a mark, which decompressors pass over: a prefix, the step, and how many bytes
// the frame has in all, both little-endian uint64.
type frames struct {
	prefix string
	// compress appends to a mark of room what has the mark at its beginning.
	compress func(room, lines []byte) ([]byte, error)
}

const numbers = 16 // bytes of step and length

var (
	// gz has a gzip member for each step, with the mark as an extra field of its header (RFC 1952, 2.3.1.1).
	gz = frames{"\x1f\x8b\x08\x04\x00\x00\x00\x00\x00\xff\x14\x00TG\x10\x00", gzipMember}
	// zst has a skippable frame with the mark and a Zstandard frame for each step (RFC 8878, 3.1.2).
	zst = frames{"\x50\x2a\x4d\x18\x14\x00\x00\x00TGXS", zstdFrame}
)

func (f frames) pack(step int64, lines []byte) ([]byte, error) {
	mark := append([]byte(f.prefix), make([]byte, numbers)...)
	data, err := f.compress(mark, lines)
	if err != nil {
		return nil, err
	}
	binary.LittleEndian.PutUint64(data[len(f.prefix):], uint64(step))
	binary.LittleEndian.PutUint64(data[len(f.prefix)+8:], uint64(len(data)))
	return data, nil
}

// gzipMember has the room for the mark in its own header.
func gzipMember(room, lines []byte) ([]byte, error) {
	const header = 12 // before the extra field
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Extra = room[header:]
	_, err := w.Write(lines)
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

func zstdFrame(room, lines []byte) ([]byte, error) {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	return w.EncodeAll(lines, room), w.Close()
}

var errForeign = errors.New("this is not how a file of experiences of Trinity-Go begins: move it away, or set another path")

// before goes from mark to mark, and is sure of a step behind which there is one, or nothing. Without one, behind those that there are, the rest is what a kill has left, or damaged.
func (f frames) before(r io.ReaderAt, size, step int64) (at, last int64, sure bool, err error) {
	mark := make([]byte, len(f.prefix)+numbers)
	for {
		n, err := r.ReadAt(mark, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, false, err
		}
		sure = string(mark[:min(n, len(f.prefix))]) == f.prefix[:min(n, len(f.prefix))]
		if at == 0 && !sure {
			return 0, 0, false, errForeign
		}
		if n < len(mark) || !sure {
			return at, last, sure, nil
		}
		of, length := int64(binary.LittleEndian.Uint64(mark[len(f.prefix):])), binary.LittleEndian.Uint64(mark[len(f.prefix)+8:])
		if of >= step || length > uint64(size-at) || length < uint64(len(mark)) {
			return at, last, true, nil
		}
		at, last = at+int64(length), of
	}
}
