package manifest

import (
	"bytes"
	"errors"
)

// errShape means that a text is not shaped like JSON. encoding/json has a better message,
// with the place.
var errShape = errors.New("not JSON")

// scanner skips over JSON without decoding it, to find the beginnings and ends of values.
// It checks only what this requires; the decoder checks the rest.
type scanner struct {
	text []byte
	at   int
	// enormous is set after skipping a string or number that is a number with an exponent
	// of three or more digits. resource.Quantity accepts such numbers and then counts out
	// the zeros, for minutes.
	enormous bool
}

// space skips white space and returns the next byte, 0 at the end.
func (s *scanner) space() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// more skips white space and reports whether anything follows, including a zero byte.
func (s *scanner) more() bool {
	s.space()
	return s.at < len(s.text)
}

// str skips the string that begins here and returns the bytes between its quotes, with
// escapes.
func (s *scanner) str() ([]byte, error) {
	start := s.at + 1
	for i := start; ; {
		end := bytes.IndexByte(s.text[i:], '"')
		if end < 0 {
			return nil, errShape
		}
		i += end
		slashes := 0
		for i-slashes > start && s.text[i-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			s.at = i + 1
			inside := s.text[start:i]
			s.watch(inside)
			return inside, nil
		}
		i++
	}
}

// watch sets enormous.
func (s *scanner) watch(token []byte) {
	if n := len(token); n >= 5 && token[0] <= '9' && token[n-1] >= '0' && token[n-1] <= '9' && enormous(token) {
		s.enormous = true
	}
}

// enormous reports whether token is a number with an exponent of three digits or more.
func enormous(token []byte) bool {
	exponent := bytes.IndexAny(token, "eE")
	if exponent < 0 || len(bytes.TrimLeft(token[exponent+1:], "+-0")) < 3 {
		return false
	}
	return len(bytes.Trim(token, "0123456789.+-eE")) == 0
}

// value skips the value that begins here.
func (s *scanner) value() error {
	for depth := 0; s.at < len(s.text); {
		switch s.text[s.at] {
		case '"':
			if _, err := s.str(); err != nil {
				return err
			}
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			depth--
			s.at++
		case ' ', '\t', '\r', '\n', ',', ':':
			s.at++
			continue
		default:
			s.bare()
		}
		if depth <= 0 {
			return nil
		}
	}
	return errShape
}

// bare skips a number, true, false or null; at least one byte.
func (s *scanner) bare() {
	start := s.at
	for s.at++; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '{', '}', '[', ']', ',', ':', '"', ' ', '\t', '\r', '\n':
			s.watch(s.text[start:s.at])
			return
		}
	}
}

// noise returns the length of the lines from here that are no JSON, up to the next value
// or the end. It returns 0 if a value begins here, or if other text follows a value on
// its line.
func (s *scanner) noise() int {
	if s.text[s.at] == '{' {
		return 0
	}
	before := bytes.TrimRight(s.text[:s.at], " \t\r")
	if len(before) > 0 && before[len(before)-1] != '\n' {
		return 0
	}
	return noiseBefore(s.text[s.at:], true)
}

// elements calls each with every element of the array that begins here.
func (s *scanner) elements(each func(at int, text []byte)) error {
	s.at++
	if s.space() == ']' {
		s.at++
		return nil
	}
	for {
		s.space()
		start := s.at
		if err := s.value(); err != nil {
			return err
		}
		each(start, s.text[start:s.at])
		switch s.space() {
		case ',':
			s.at++
		case ']':
			s.at++
			return nil
		default:
			return errShape
		}
	}
}

// head describes the outermost level of an object.
type head struct {
	apiVersion, kind []byte // as in the text, without quotes; nil if missing or no string
	items            int    // the offset of the items array; -1 without one
	oddItems         bool   // items is no array, or occurs more than once
	enormous         bool
	pods, nodes, raw bool // it has pods, nodes and rawObjects, as exports have
}

// headOf reads the outermost level of the object that begins at the scanner's position,
// and skips it.
func (s *scanner) headOf() (head, error) {
	h := head{items: -1}
	err := s.members(func(key []byte, first byte, start int) { h.member(s.text[start:s.at], key, first, start) })
	h.enormous = s.enormous
	return h, err
}

// members calls each with every member of the object that begins here, after skipping its
// value: with the key, the first byte of the value and its offset.
func (s *scanner) members(each func(key []byte, first byte, start int)) error {
	if s.space() != '{' {
		return errShape
	}
	s.at++
	if s.space() == '}' {
		s.at++
		return nil
	}
	for {
		if s.space() != '"' {
			return errShape
		}
		key, err := s.str()
		if err != nil || s.space() != ':' {
			return errShape
		}
		s.at++
		first := s.space()
		start := s.at
		if err := s.value(); err != nil {
			return err
		}
		each(key, first, start)
		switch s.space() {
		case ',':
			s.at++
		case '}':
			s.at++
			return nil
		default:
			return errShape
		}
	}
}

// member records the value of one key of the outermost level.
func (h *head) member(value, key []byte, first byte, start int) {
	switch {
	case string(key) == "apiVersion" && first == '"':
		h.apiVersion = value[1 : len(value)-1]
	case string(key) == "kind" && first == '"':
		h.kind = value[1 : len(value)-1]
	case string(key) == "items":
		h.oddItems = h.oddItems || h.items >= 0 || first != '[' && string(value) != "null"
		if first == '[' {
			h.items = start
		}
	case string(key) == "pods":
		h.pods = h.pods || first == '[' || first == 'n'
	case string(key) == "nodes":
		h.nodes = h.nodes || first == '[' || first == 'n'
	case string(key) == "rawObjects":
		h.raw = h.raw || first == '{'
	}
}
