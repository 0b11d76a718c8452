package monitor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/wire/protobuf"
)

// recordFile is a file of protobuf messages in the framing of LevelDB's logs, as W&B and SwanLab
// write it: a header, then blocks of 32 KiB. The first field of a message is its number. Here its first
// bits are the number of the row to which the message belongs, from 1 on, and its last ones tell the
// messages of a row apart. Other messages have 0 or less.
type recordFile struct {
	path string
	bits int     // that tell the messages of a row apart
	ends []int64 // offsets after the messages of the rows; the first one is before all rows
}

const (
	blockSize   = 32 << 10
	frameHeader = 7 // checksum, length, part
	fileHeader  = 7
	maxEmpty    = 1 << 20 // rows without a message, one after the other
)

// Parts of a message that lies in several blocks.
const (
	partWhole = iota + 1
	partFirst
	partMiddle
	partLast
)

// openRecordFile opens a file, or makes it with a header and first messages. It ignores what
// follows the last row: half a message of a killed process, or the end of a run that resumes.
func openRecordFile(path, header string, bits int, first ...[]byte) (*recordFile, error) {
	f := &recordFile{path: path, bits: bits}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		data = frames([]byte(header), first...)
		if err = durable.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = durable.WriteFile(path, data)
		}
	}
	if err != nil {
		return nil, err
	}
	f.findEnds(data, len(first))
	return f, nil
}

// write puts messages after the first rows of the file, in place of all others. row tells the
// number of the row of each message; those of the last ones may be 0.
func (f *recordFile) write(rows int64, messages [][]byte) error {
	rows = min(rows, int64(len(f.ends)-1)) // a person may have removed the file
	f.ends = f.ends[:rows+1]
	begin := f.ends[rows]
	file, err := os.OpenFile(f.path, os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	out := make([]byte, begin%blockSize)
	for _, m := range messages {
		out = frames(out, m)
		if row := f.rowOf(m); row > 0 {
			f.setEnd(row, begin-begin%blockSize+int64(len(out)))
		}
	}
	_, err = file.WriteAt(out[begin%blockSize:], begin)
	if err == nil {
		err = file.Truncate(begin - begin%blockSize + int64(len(out)))
	}
	return errors.Join(err, file.Sync(), file.Close())
}

// offlineReason returns why a server does not get the rows of an offline run in dir from the first one on:
// a run that began offline is uploaded by the vendor's program, which sends all rows.
func (f *recordFile) offlineReason(dir, program string) (barred, err error) {
	mark := filepath.Join(dir, "online")
	if _, err := os.Stat(mark); err != nil && len(f.ends) > 1 {
		return fmt.Errorf("the run began offline: %s %s uploads it", program, dir), nil
	}
	return nil, durable.WriteFile(mark, nil)
}

// each calls visit with the messages up to the last row.
func (f *recordFile) each(visit func(message []byte) error) error {
	data, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	for at := int64(fileHeader); at < f.ends[len(f.ends)-1]; {
		message, end, ok := readFrames(data, at)
		if !ok {
			return nil
		}
		if err := visit(message); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// setEnd notes where the messages of a row end.
func (f *recordFile) setEnd(row, end int64) {
	for int64(len(f.ends)) <= row {
		f.ends = append(f.ends, f.ends[len(f.ends)-1]) // of rows without a message
	}
	f.ends[row] = end
}

// findEnds finds the offsets after the rows of a file that begins with some other messages.
func (f *recordFile) findEnds(data []byte, others int) {
	f.ends = []int64{int64(min(len(data), fileHeader))}
	for i := 0; ; i++ {
		message, end, ok := readFrames(data, f.ends[len(f.ends)-1])
		switch row, last := f.rowOf(message), int64(len(f.ends)-1); {
		case !ok:
			return
		case i < others:
			f.ends[0] = end
		case row < max(1, last) || row > last+maxEmpty:
			return // the end of a run
		default:
			f.setEnd(row, end)
		}
	}
}

// rowOf returns the number of a message's row, 0 if the message has no number.
func (f *recordFile) rowOf(message []byte) int64 {
	field, kind, n := protowire.ConsumeTag(message)
	if n < 0 || field != 1 || kind != protowire.VarintType {
		return 0
	}
	v, n := protowire.ConsumeVarint(message[n:])
	if n < 0 {
		return 0
	}
	return int64(v) >> f.bits
}

// frames appends messages to a file whose beginning, from a block on, is out.
func frames(out []byte, messages ...[]byte) []byte {
	for _, m := range messages {
		for begun := false; ; begun = true {
			room := blockSize - len(out)%blockSize
			if room < frameHeader {
				out = append(out, make([]byte, room)...)
				room = blockSize
			}
			n := min(len(m), room-frameHeader)
			part, last := byte(partMiddle), n == len(m)
			switch {
			case !begun && last:
				part = partWhole
			case !begun:
				part = partFirst
			case last:
				part = partLast
			}
			body := append([]byte{part}, m[:n]...)
			out = binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(body))
			out = binary.LittleEndian.AppendUint16(out, uint16(n))
			out = append(out, body...)
			if m = m[n:]; last {
				break
			}
		}
	}
	return out
}

// readFrames returns the message at an offset and the offset after it. ok is false at the end of
// the file, and where the file is damaged.
func readFrames(data []byte, at int64) (message []byte, end int64, ok bool) {
	for begun := false; ; begun = true {
		if room := blockSize - at%blockSize; room < frameHeader {
			at += room
		}
		if at+frameHeader > int64(len(data)) {
			return nil, 0, false
		}
		head := data[at:]
		n, part := int64(binary.LittleEndian.Uint16(head[4:])), head[6]
		if at%blockSize+frameHeader+n > blockSize || at+frameHeader+n > int64(len(data)) ||
			crc32.ChecksumIEEE(head[6:frameHeader+n]) != binary.LittleEndian.Uint32(head) ||
			begun != (part == partMiddle || part == partLast) || part < partWhole || part > partLast {
			return nil, 0, false
		}
		message, at = append(message, head[frameHeader:frameHeader+n]...), at+frameHeader+n
		if part == partWhole || part == partLast {
			return message, at, true
		}
	}
}

func varint(b []byte, field protowire.Number, v int64) []byte {
	return protobuf.AppendVarint(b, field, uint64(v))
}

// stamp is a google.protobuf.Timestamp.
func stamp(t time.Time) []byte { return varint(varint(nil, 1, t.Unix()), 2, int64(t.Nanosecond())) }
