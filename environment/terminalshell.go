package environment

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// shell is a simulated terminal on files in memory. Nothing is executed.
type shell struct {
	windows bool
	home    string
	here    string
	files   map[string]string // texts by paths
	folders map[string]bool
}

// shellCommand is a command that all systems have, under names of their own.
type shellCommand struct {
	unix, windows string
	paths         int // arguments; -1 is none or one
	run           func(s *shell, paths []string) (string, error)
}

var shellCommands = []shellCommand{
	{"pwd", "", 0, func(s *shell, _ []string) (string, error) { return s.shown(s.here), nil }},
	{"ls", "dir", -1, (*shell).list},
	{"cd", "cd", -1, (*shell).enter},
	{"cat", "type", 1, func(s *shell, p []string) (string, error) { return s.file(p[0]) }},
	{"cp", "copy", 2, func(s *shell, p []string) (string, error) { return "", s.copy(p[0], p[1], false) }},
	{"mv", "move", 2, func(s *shell, p []string) (string, error) { return "", s.copy(p[0], p[1], true) }},
	{"rm", "del", 1, (*shell).remove},
	{"mkdir", "md", 1, (*shell).make},
}

// name returns the command's name on the shell's system.
func (c *shellCommand) name(s *shell) string {
	if s.windows {
		return c.windows
	}
	return c.unix
}

// run does what a line says. What is wrong with it is the error.
func (s *shell) run(line string) (string, error) {
	words, err := shellWords(line)
	if err != nil || len(words) == 0 {
		return "", err
	}
	if words[0] == "echo" {
		return s.echo(words[1:])
	}
	for _, c := range shellCommands {
		if words[0] != c.name(s) {
			continue
		}
		var paths []string
		for _, w := range words[1:] {
			if !strings.HasPrefix(w, "-") && !(s.windows && len(w) == 2 && w[0] == '/') { // no switch
				paths = append(paths, s.path(w))
			}
		}
		if c.paths >= 0 && len(paths) != c.paths || c.paths < 0 && len(paths) > 1 {
			return "", fmt.Errorf("%s: wrong number of arguments", words[0])
		}
		return c.run(s, paths)
	}
	if s.windows {
		return "", fmt.Errorf("'%s' is not recognized as a command", words[0])
	}
	return "", fmt.Errorf("%s: command not found", words[0])
}

// shellWords cuts a line into words; quotes hold one together.
func shellWords(line string) (words []string, err error) {
	var word strings.Builder
	quote, begun := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, begun = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		case quote == 0 && strings.ContainsRune("|&;\n", r):
			return nil, errors.New("one command at a time, without pipes")
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// path returns the path that a word names.
func (s *shell) path(word string) string {
	if s.windows {
		word = strings.ReplaceAll(word, `\`, "/")
		if len(word) >= 2 && strings.EqualFold(word[:2], "c:") {
			word = "/" + strings.TrimPrefix(word[2:], "/")
		}
	} else if word == "~" || strings.HasPrefix(word, "~/") {
		word = s.home + word[1:]
	}
	if !strings.HasPrefix(word, "/") {
		word = s.here + "/" + word
	}
	return path.Clean(word)
}

// shown writes a path as the system does.
func (s *shell) shown(p string) string {
	if s.windows {
		return "C:" + strings.ReplaceAll(p, "/", `\`)
	}
	return p
}

func (s *shell) missing(p string) error { return fmt.Errorf("%s: no such file or folder", s.shown(p)) }

func (s *shell) file(p string) (string, error) {
	text, ok := s.files[p]
	if !ok {
		return "", s.missing(p)
	}
	return text, nil
}

// list names what is in a folder.
func (s *shell) list(paths []string) (string, error) {
	of := append(paths, s.here)[0]
	if _, ok := s.files[of]; ok {
		return path.Base(of), nil
	}
	if !s.folders[of] {
		return "", s.missing(of)
	}
	var names []string
	for p := range s.files {
		if path.Dir(p) == of {
			names = append(names, path.Base(p))
		}
	}
	for p := range s.folders {
		if path.Dir(p) == of && p != of {
			names = append(names, path.Base(p)+"/")
		}
	}
	slices.Sort(names)
	return strings.Join(names, "\n"), nil
}

func (s *shell) enter(paths []string) (string, error) {
	if len(paths) == 0 {
		if s.windows {
			return s.shown(s.here), nil
		}
		paths = []string{s.home}
	}
	if !s.folders[paths[0]] {
		return "", s.missing(paths[0])
	}
	s.here = paths[0]
	return "", nil
}

// copy copies or moves a file to a path, or into a folder.
func (s *shell) copy(from, to string, move bool) error {
	text, err := s.file(from)
	if err != nil {
		return err
	}
	if s.folders[to] {
		to = path.Join(to, path.Base(from))
	}
	switch {
	case from == to:
		return fmt.Errorf("%s: the same file", s.shown(to))
	case !s.folders[path.Dir(to)]:
		return s.missing(path.Dir(to))
	}
	s.files[to] = text
	if move {
		delete(s.files, from)
	}
	return nil
}

func (s *shell) remove(paths []string) (string, error) {
	if s.folders[paths[0]] {
		return "", fmt.Errorf("%s: is a folder", s.shown(paths[0]))
	}
	_, err := s.file(paths[0])
	delete(s.files, paths[0])
	return "", err
}

func (s *shell) make(paths []string) (string, error) {
	p := paths[0]
	if _, isFile := s.files[p]; isFile || s.folders[p] {
		return "", fmt.Errorf("%s: exists already", s.shown(p))
	}
	if !s.folders[path.Dir(p)] {
		return "", s.missing(path.Dir(p))
	}
	s.folders[p] = true
	return "", nil
}

// echo says words, or writes them into a file behind ">".
func (s *shell) echo(words []string) (string, error) {
	i := slices.Index(words, ">")
	if i < 0 {
		return strings.Join(words, " "), nil
	}
	if len(words) != i+2 {
		return "", errors.New("echo: want one file after >")
	}
	p := s.path(words[i+1])
	if !s.folders[path.Dir(p)] || s.folders[p] {
		return "", s.missing(p)
	}
	s.files[p] = strings.Join(words[:i], " ")
	return "", nil
}

// copyOf returns another terminal with the same files.
func (s *shell) copyOf() *shell {
	out := *s
	out.files, out.folders = maps.Clone(s.files), maps.Clone(s.folders)
	return &out
}

// isLike reports whether both terminals have the same files and folders.
func (s *shell) isLike(other *shell) bool {
	return maps.Equal(s.files, other.files) && maps.Equal(s.folders, other.folders)
}
