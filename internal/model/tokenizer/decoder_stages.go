package tokenizer

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// spaceJoin joins tokens with spaces; it is the decoder of a tokenizer without one.
type spaceJoin struct {
	next    stage
	started bool
}

func (s *spaceJoin) push(token string) {
	if s.started {
		s.next.push(" ")
	}
	s.started = true
	s.next.push(token)
}

func (s *spaceJoin) flush() { s.next.flush() }

// byteLevelStage decodes the byte alphabet. It leaves a token with a code point outside the
// alphabet unchanged.
type byteLevelStage struct {
	next    stage
	pending []byte // the beginning of a code point
}

func (s *byteLevelStage) push(token string) {
	start := len(s.pending)
	for _, r := range token {
		b, ok := byteOf(r)
		if !ok {
			s.pending = append(s.pending[:start], token...)
			break
		}
		s.pending = append(s.pending, b)
	}
	text := string(s.pending)
	ready := len(text) - incomplete(text)
	s.pending = append(s.pending[:0], text[ready:]...)
	if ready > 0 {
		s.next.push(validUTF8(text[:ready]))
	}
}

func (s *byteLevelStage) flush() {
	if len(s.pending) > 0 {
		s.next.push(validUTF8(string(s.pending)))
	}
	s.next.flush()
}

// byteFallbackStage decodes a run of <0xNN> tokens: to text if the run is UTF-8, else to one U+FFFD
// per byte.
type byteFallbackStage struct {
	next stage
	run  []byte
}

func (s *byteFallbackStage) push(token string) {
	if len(token) == 6 && strings.HasPrefix(token, "<0x") && token[5] == '>' {
		if b, err := strconv.ParseUint(token[3:5], 16, 8); err == nil {
			s.run = append(s.run, byte(b))
			return
		}
	}
	s.endRun()
	s.next.push(token)
}

func (s *byteFallbackStage) endRun() {
	if len(s.run) == 0 {
		return
	}
	text := string(s.run)
	if !utf8.ValidString(text) {
		text = strings.Repeat(string(utf8.RuneError), len(text))
	}
	s.run = s.run[:0]
	s.next.push(text)
}

func (s *byteFallbackStage) flush() {
	s.endRun()
	s.next.flush()
}

type replaceStage struct {
	next    stage
	replace func(string) string
}

func (s *replaceStage) push(token string) { s.next.push(s.replace(token)) }
func (s *replaceStage) flush()            { s.next.flush() }

// metaspaceStage replaces ▁ by a space. It drops the ▁ at the start of the first token if encoding
// may have prepended it.
type metaspaceStage struct {
	next stage
	*metaspace
	first bool
}

func (s *metaspaceStage) push(token string) {
	space := " "
	if s.first && s.prepend != "never" {
		space = ""
	}
	s.first = false
	s.next.push(strings.ReplaceAll(token, s.mark, space))
}

func (s *metaspaceStage) flush() { s.next.flush() }

// stripToken removes up to start characters from the start and up to stop from the end of every
// token.
type stripToken struct {
	next        stage
	content     string
	start, stop int
}

func (s *stripToken) push(token string) {
	for n := 0; n < s.start && strings.HasPrefix(token, s.content); n++ {
		token = token[len(s.content):]
	}
	for n := 0; n < s.stop && strings.HasSuffix(token, s.content); n++ {
		token = token[:len(token)-len(s.content)]
	}
	s.next.push(token)
}

func (s *stripToken) flush() { s.next.flush() }

// stripText is stripToken for the joined text, which arrives in fragments.
type stripText struct {
	next        stage
	content     string
	start, stop int    // start: the number of characters that it may still remove
	held        string // characters that it removes if nothing follows
}

func (s *stripText) push(fragment string) {
	for s.start > 0 && fragment != "" {
		if !strings.HasPrefix(fragment, s.content) {
			s.start = 0
			break
		}
		fragment = fragment[len(s.content):]
		s.start--
	}
	fragment = s.held + fragment
	kept := len(fragment)
	for n := 0; n < s.stop && strings.HasSuffix(fragment[:kept], s.content); n++ {
		kept -= len(s.content)
	}
	s.held = fragment[kept:]
	if kept > 0 {
		s.next.push(fragment[:kept])
	}
}

func (s *stripText) flush() { s.next.flush() }
