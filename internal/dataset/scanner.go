package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// scanner finds where the values of a JSON document begin and end, and holds one at a time. Its
// callers check whether a value is valid JSON.
type scanner struct {
	path string
	r    *bufio.Reader
	line int // from 1
	text []byte
}

func newScanner(path string, r io.Reader) *scanner {
	br := bufio.NewReaderSize(r, 1<<16)
	skipByteOrderMark(br)
	return &scanner{path: path, r: br, line: 1}
}

// wrong is an error at a line.
func (s *scanner) wrong(line int, err error) error { return fmt.Errorf("%s:%d: %w", s.path, line, err) }

// peek skips space and returns the next byte without reading it, or io.EOF.
func (s *scanner) peek() (byte, error) {
	for {
		c, err := s.r.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return 0, io.EOF
		case err != nil:
			return 0, fmt.Errorf("%s: %w", s.path, err)
		case c == '\n':
			s.line++
		case !strings.ContainsRune(space, rune(c)):
			return c, s.r.UnreadByte()
		}
	}
}

// need is like peek, but the end of the file is an error of the document.
func (s *scanner) need() (byte, error) {
	c, err := s.peek()
	if errors.Is(err, io.EOF) {
		err = s.wrong(s.line, errCut)
	}
	return c, err
}

var errCut = errors.New("not JSON: it ends too early")

// take reads the byte that must follow.
func (s *scanner) take(want byte) error {
	c, err := s.need()
	if err != nil {
		return err
	}
	if c != want {
		return s.wrong(s.line, fmt.Errorf("not JSON: %q, want %q", c, want))
	}
	_, err = s.r.Discard(1)
	return err
}

// end refuses what follows the document.
func (s *scanner) end() error {
	c, err := s.peek()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		err = s.wrong(s.line, fmt.Errorf("not JSON: %q follows its end", c))
	}
	return err
}

// more reports whether another element or member follows, and skips the comma before it or the
// closing bracket.
func (s *scanner) more(first bool, end byte) (bool, error) {
	c, err := s.need()
	if err != nil {
		return false, err
	}
	if c == end {
		return false, s.take(end)
	}
	if first {
		return true, nil
	}
	if err := s.take(','); err != nil {
		return false, err
	}
	_, err = s.need()
	return true, err
}

// members calls visit for each member of an object, with the key as it is written and the first
// byte of the value. visit reads the value.
func (s *scanner) members(visit func(key string, first byte) error) error {
	if err := s.take('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.more(first, '}')
		if err != nil || !more {
			return err
		}
		text, err := s.valid()
		if err != nil {
			return err
		}
		key := string(text)
		if err := s.take(':'); err != nil {
			return err
		}
		begin, err := s.need()
		if err != nil {
			return err
		}
		if err := visit(key, begin); err != nil {
			return err
		}
	}
}

// value returns the text of the value that begins here. It is valid until the next call.
func (s *scanner) value() ([]byte, error) {
	s.text = s.text[:0]
	err := s.lex(func(part []byte) bool {
		s.text = append(s.text, part...)
		return len(s.text) <= maxRow
	})
	return s.text, err
}

// valid is like value, and checks that it is JSON.
func (s *scanner) valid() ([]byte, error) {
	number := s.line
	text, err := s.value()
	if err == nil && !json.Valid(text) {
		err = s.wrong(number, fmt.Errorf("not JSON: %w", syntaxError(text)))
	}
	return text, err
}

// skip skips a value of any size.
func (s *scanner) skip() error { return s.lex(func([]byte) bool { return true }) }

// lex passes a value in parts to visit, which reports whether the value may continue.
func (s *scanner) lex(visit func(part []byte) bool) error {
	begin, v := s.line, extent{}
	for {
		_, err := s.r.Peek(1)
		if errors.Is(err, io.EOF) && v.scalar() {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return s.wrong(begin, errCut)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
		part, _ := s.r.Peek(s.r.Buffered()) // cannot fail for buffered bytes
		part = part[:v.in(part)]
		s.line += bytes.Count(part, []byte("\n"))
		if !visit(part) {
			return s.wrong(begin, errLong)
		}
		if _, err := s.r.Discard(len(part)); err != nil || v.over {
			return err
		}
	}
}

// extent tracks where a value ends.
type extent struct {
	depth                int
	inText, escape, over bool
}

// scalar reports whether the value may end with the document.
func (v *extent) scalar() bool { return v.depth == 0 && !v.inText }

// in returns how many leading bytes of data belong to the value.
func (v *extent) in(data []byte) int {
	for i, c := range data {
		switch {
		case v.escape:
			v.escape = false
		case v.inText && c == '\\':
			v.escape = true
		case v.inText && c != '"':
		case v.depth == 0 && strings.IndexByte(",:]}"+space, c) >= 0:
			v.over = true
			return i
		case c == '"':
			v.inText = !v.inText
			v.over = v.depth == 0 && !v.inText
		case c == '{' || c == '[':
			v.depth++
		case c == '}' || c == ']':
			v.depth--
			v.over = v.depth == 0
		}
		if v.over {
			return i + 1
		}
	}
	return len(data)
}
