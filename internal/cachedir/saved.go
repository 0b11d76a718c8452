package cachedir

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"os"
)

// The form of what [Dir.Save] writes: the length and the checksum of a header, the header in JSON, and a body.
const preamble, maxHeader = 8, 64 << 20

// ErrDamaged is the error of what is not in the form in which it was written.
var ErrDamaged = errors.New("what the cache has is damaged")

// Sum returns the checksum of a part of a body, which a header may have.
func Sum(part []byte) uint32 { return crc32.Checksum(part, crc32.MakeTable(crc32.Castagnoli)) }

// Save writes a header and a body, and returns where the body begins. A header that is too large is not written.
func (d *Dir) Save(name string, header any, body []byte) (begin int64, err error) {
	text, err := json.Marshal(header)
	if err != nil || len(text) > maxHeader {
		return 0, errors.Join(err, ErrDamaged)
	}
	out := binary.LittleEndian.AppendUint32(make([]byte, 0, preamble+len(text)+len(body)), uint32(len(text)))
	out = append(append(binary.LittleEndian.AppendUint32(out, Sum(text)), text...), body...)
	return int64(preamble + len(text)), d.Write(name, out)
}

// Load opens what Save has written and reads its header. The body is between two offsets of the file.
func (d *Dir) Load(name string, header any) (file *os.File, begin, end int64, err error) {
	if file, end, err = d.Open(name); err != nil {
		return nil, 0, 0, err
	}
	start := make([]byte, preamble)
	_, err = file.ReadAt(start, 0)
	text := make([]byte, max(0, min(int64(binary.LittleEndian.Uint32(start)), maxHeader, end-preamble))) // a longer one has another sum
	if err == nil {
		_, err = file.ReadAt(text, preamble)
	}
	if err == nil && Sum(text) != binary.LittleEndian.Uint32(start[4:]) {
		err = ErrDamaged
	}
	if err == nil {
		err = json.Unmarshal(text, header)
	}
	if err != nil {
		return nil, 0, 0, errors.Join(err, file.Close())
	}
	return file, int64(preamble + len(text)), end, nil
}
