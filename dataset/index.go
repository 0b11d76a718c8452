package dataset

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"hash/crc32"
	"io"
	"os"
)

// index is what is kept of a large file, behind its rows where these are kept too: in gob, then the length of that (uint64, little endian), its CRC-32C
// (uint32) and the magic.
type index struct {
	Of      identity
	Unit    string // of kept rows; "" where they are read from the file itself
	Rows    int
	Records int64 // bytes of the kept rows
	Marks   []mark
	Sums    []uint32 // CRC-32C of the blocks of kept rows, which begin at Marks
}

const (
	indexMagic = "TGROWS2\n"
	indexTail  = 8 + 4 + len(indexMagic)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (x *index) write(w io.Writer) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(x); err != nil {
		return err
	}
	tail := binary.LittleEndian.AppendUint64(nil, uint64(b.Len()))
	tail = binary.LittleEndian.AppendUint32(tail, crc32.Checksum(b.Bytes(), castagnoli))
	b.Write(append(tail, indexMagic...))
	_, err := w.Write(b.Bytes())
	return err
}

var errIndex = errors.New("no index of rows")

func readIndex(f *os.File) (*index, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	tail := make([]byte, indexTail)
	if _, err := f.ReadAt(tail, info.Size()-int64(indexTail)); err != nil {
		return nil, err
	}
	rest := info.Size() - int64(indexTail)
	n := binary.LittleEndian.Uint64(tail)
	if string(tail[12:]) != indexMagic || n > uint64(rest) {
		return nil, errIndex
	}
	data := make([]byte, n)
	if _, err := f.ReadAt(data, rest-int64(n)); err != nil {
		return nil, err
	}
	if crc32.Checksum(data, castagnoli) != binary.LittleEndian.Uint32(tail[8:]) {
		return nil, errIndex
	}
	var x index
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&x); err != nil {
		return nil, err
	}
	if x.Records != rest-int64(n) || x.Unit != "" && len(x.Sums) != len(x.Marks) {
		return nil, errIndex
	}
	return &x, nil
}
