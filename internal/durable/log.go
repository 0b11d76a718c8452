package durable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"

	"github.com/trinity-go/trinity/internal/failpoint"
)

// Log is a directory of records, numbered from 0. One process appends to it, and any process reads
// it. A record is on the disk when Append returns, as a whole or not at all.
//
// Records follow one another in segments: files that are named by the number of their first record.
// A segment begins with the eight bytes of segmentMagic. Three little-endian uint32 precede a
// record: its length in bytes, its CRC-32C (Castagnoli), and the CRC-32C of these eight bytes.
type Log struct {
	dir string

	mu     sync.Mutex
	first  int64    // number of the first record that was not trimmed
	file   *os.File // the last segment
	named  bool     // the name of file is on the disk
	size   int64    // of file, bytes
	next   int64    // number of the next record
	torn   int64    // bytes after the last whole record that OpenLog cut off
	broken error    // why Append fails from now on; nil if it does not
}

const (
	segmentMagic  = "TGLOG01\n"
	segmentSuffix = ".log"
	segmentBytes  = 64 << 20 // size from which on a new segment begins
	frameBytes    = 12       // before each record
)

var (
	failLogCreate   = failpoint.New("durable.log.create")
	failLogBegin    = failpoint.New("durable.log.begin")
	failLogFrame    = failpoint.New("durable.log.frame")
	failLogRecord   = failpoint.New("durable.log.record")
	failLogSync     = failpoint.New("durable.log.sync")
	failLogAppended = failpoint.New("durable.log.appended")
	failLogRoll     = failpoint.New("durable.log.roll") // forced: every record begins a segment
	failLogTrim     = failpoint.New("durable.log.trim")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// OpenLog opens the log of a directory for appending, and makes it if there is none. It truncates a
// last record that is incomplete because a process was killed. A damaged record anywhere else is an
// error.
func OpenLog(dir string) (*Log, error) {
	if err := MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	l := &Log{dir: dir}
	segments, err := segments(dir)
	if err != nil {
		return nil, err
	}
	if len(segments) == 0 {
		return l, l.begin()
	}
	l.first = segments[0]
	last := segments[len(segments)-1]
	r := ReadLog(dir, last)
	defer r.Close()
	for {
		if _, err = r.Next(); err != nil {
			break
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	l.next, l.size = r.next, max(r.offset, int64(len(segmentMagic)))
	if l.file, err = os.OpenFile(segmentPath(dir, last), os.O_RDWR, 0o644); err != nil {
		return nil, err
	}
	info, err := l.file.Stat()
	if err != nil {
		return nil, errors.Join(err, l.file.Close())
	}
	l.torn = max(0, info.Size()-l.size)
	return l, errors.Join(l.cut(), Sync(l.file))
}

// begin starts a segment with the next record. On an error the last segment stays, and no reader
// has seen another.
func (l *Log) begin() error {
	path := segmentPath(l.dir, l.next)
	if err := failLogCreate.Hit(path); err != nil {
		return err
	}
	temp := beside(TempPrefix, path)
	err := newSegment(temp)
	if err == nil {
		err = rename(temp, path, failLogBegin)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(temp))
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return errors.Join(err, f.Close(), os.Remove(path))
	}
	if l.file != nil {
		_ = l.file.Close() // all of it is on the disk
	}
	l.file, l.size, l.named = f, int64(len(segmentMagic)), false
	return nil
}

// newSegment creates a segment without records.
func newSegment(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(segmentMagic)
	if err == nil {
		err = Sync(f)
	}
	return errors.Join(err, f.Close())
}

// cut truncates the segment to its magic and its whole records, and seeks to its end.
func (l *Log) cut() error {
	if _, err := l.file.WriteAt([]byte(segmentMagic), 0); err != nil { // first: a longer file without its magic would count as damaged
		return err
	}
	if err := l.file.Truncate(l.size); err != nil {
		return err
	}
	_, err := l.file.Seek(l.size, io.SeekStart)
	return err
}

// Append adds a record and returns its number. After an error, such as a full disk, the log is
// unchanged.
func (l *Log) Append(record []byte) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return 0, l.broken
	}
	if len(record) > math.MaxUint32 {
		return 0, fmt.Errorf("%s: the record has %d bytes, more than the maximum of %d", l.dir, len(record), math.MaxUint32)
	}
	if l.size >= segmentBytes || l.size > int64(len(segmentMagic)) && failLogRoll.Forced() {
		if err := l.begin(); err != nil {
			return 0, err
		}
	}
	if !l.named {
		if err := SyncPath(l.dir); err != nil {
			return 0, err
		}
		l.named = true
	}
	if err := l.write(record); err != nil {
		l.broken = l.cut()
		return 0, errors.Join(err, l.broken)
	}
	l.size += frameBytes + int64(len(record))
	l.next++
	return l.next - 1, failLogAppended.Hit(l.file.Name())
}

func (l *Log) write(record []byte) error {
	var frame [frameBytes]byte
	binary.LittleEndian.PutUint32(frame[:], uint32(len(record)))
	binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(record, castagnoli))
	binary.LittleEndian.PutUint32(frame[8:], crc32.Checksum(frame[:8], castagnoli))
	if _, err := failLogFrame.Write(l.file, l.file.Name(), frame[:]); err != nil {
		return err
	}
	if _, err := failLogRecord.Write(l.file, l.file.Name(), record); err != nil {
		return err
	}
	if err := failLogSync.Hit(l.file.Name()); err != nil {
		return err
	}
	return syncData(l.file)
}

// Torn returns the number of bytes that OpenLog truncated after the last whole record: a record
// that a killed process had begun to write, or a damaged last record.
func (l *Log) Torn() int64 { return l.torn }

// Dir returns the log's directory.
func (l *Log) Dir() string { return l.dir }

// First returns the number of the first record that was not trimmed.
func (l *Log) First() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

// Next returns the number of the next record to be appended.
func (l *Log) Next() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// Trim removes the segments whose records are all before the given one.
func (l *Log) Trim(before int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	segments, err := segments(l.dir)
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(segments) && segments[i+1] <= before; i++ {
		path := segmentPath(l.dir, segments[i])
		if err := failLogTrim.Hit(path); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		l.first = segments[i+1]
	}
	return nil
}

// Close closes the log. Append fails after that.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = fmt.Errorf("%s: %w", l.dir, os.ErrClosed)
	}
	return l.file.Close()
}

func segmentPath(dir string, first int64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", first, segmentSuffix))
}
