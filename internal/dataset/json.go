package dataset

import (
	"errors"
	"io"
)

// readJSON reads an array of objects, an object with such an array under "data", or a sequence of
// objects. It holds one of them at a time.
func readJSON(in *input) (shard, error) {
	wrapped, err := wrapsArray(in)
	if err != nil {
		return nil, err
	}
	return spooled(in, "line", func(rows *spool) error {
		r, err := in.text()
		if err != nil {
			return err
		}
		defer r.Close()
		s := newScanner(in.path, r)
		switch first, err := s.peek(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case wrapped:
			return s.wrappedRows(rows)
		case first == '[':
			if err := s.arrayRows(rows); err != nil {
				return err
			}
			return s.end()
		case first == '{':
			return s.objectRows(rows)
		}
		return s.wrong(s.line, errors.New(`want an array of objects, {"data": [...]} or an object per line`))
	})
}

const dataKey = `"data"`

// wrapsArray reports whether a file is one object with an array under "data". Reading the rows
// finds its errors.
func wrapsArray(in *input) (bool, error) {
	quiet := *in
	quiet.opts.Progress = nil
	r, err := quiet.text()
	if err != nil {
		return false, err
	}
	defer r.Close()
	s := newScanner(in.path, r)
	if first, err := s.peek(); err != nil || first != '{' {
		return false, nil
	}
	found := false
	if err := s.members(func(key string, first byte) error {
		found = found || key == dataKey && first == '['
		return s.skip()
	}); err != nil {
		return found, nil
	}
	_, err = s.peek()
	return found && errors.Is(err, io.EOF), nil
}

// wrappedRows reads the first array under "data".
func (s *scanner) wrappedRows(rows *spool) error {
	done := false
	err := s.members(func(key string, first byte) error {
		if !done && key == dataKey && first == '[' {
			done = true
			return s.arrayRows(rows)
		}
		_, err := s.valid()
		return err
	})
	if err != nil {
		return err
	}
	return s.end()
}

func (s *scanner) arrayRows(rows *spool) error {
	if err := s.take('['); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.more(first, ']')
		if err != nil || !more {
			return err
		}
		if err := s.row(rows); err != nil {
			return err
		}
	}
}

func (s *scanner) objectRows(rows *spool) error {
	for {
		if _, err := s.peek(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.row(rows); err != nil {
			return err
		}
	}
}

// row reads a value that is a row.
func (s *scanner) row(rows *spool) error {
	number := s.line
	text, err := s.value()
	if err != nil {
		return err
	}
	if err := checkRow(text); err != nil {
		return s.wrong(number, err)
	}
	return rows.add(number, text)
}
