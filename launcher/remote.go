package launcher

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/machines"
	"github.com/trinity-go/trinity/internal/process"
)

// remote starts groups through a connection to each machine. A shell there reads a script from it,
// which has all that the group needs, so that no secret is an argument. The end of the connection
// ends the group.
type remote struct {
	machines.Pool
	connect func(group, machine string) []string // the command that connects to a shell
	sweep   func(group string) error             // ends what connections that were killed have left; may be nil
}

// newRemote returns a remote for machines that have so many GPUs.
func newRemote(names []string, gpus int, connect func(group, machine string) []string) *remote {
	r := &remote{connect: connect}
	r.All, r.Spread = machines.Equal(names, gpus), true
	return r
}

// launch starts a group.
func (r *remote) launch(g trinity.ProcessGroup) (Launched, error) {
	shares, err := r.Take(g)
	if err != nil {
		return nil, err
	}
	clean := func() error {
		defer r.Release(g.Name)
		if r.sweep == nil {
			return nil
		}
		return r.sweep(g.Name)
	}
	var list []child
	for _, s := range shares {
		name := r.All[s.Machine].Name
		input, err := shellScript(g, s.GPUs, untilDisconnected)
		if err != nil {
			return nil, errors.Join(err, clean())
		}
		list = append(list, child{on: name, program: process.Program{Command: r.connect(g.Name, name)}, input: input})
	}
	return startChildren(list, clean)
}

// render returns the commands of a group.
func (r *remote) render(g trinity.ProcessGroup) (string, error) {
	if g.Nodes > len(r.All) {
		return "", fmt.Errorf("%s needs %d machines, and there are %d", g.Name, g.Nodes, len(r.All))
	}
	var lines []string
	for n := range g.Nodes {
		lines = append(lines, quoteAll(r.connect(g.Name, r.All[n].Name))+" <<'END'\n"+quoteAll(g.Command)+"\nEND")
	}
	return strings.Join(lines, "\n"), nil
}

// What ends the program of a script besides a signal.
const (
	untilDisconnected = `(while read -r line; do :; done <&3; kill -TERM "$program") 2>/dev/null &
watch=$!
`
	untilSignalled = `watch=
`
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// shellScript returns what a shell runs on a machine of a group: it makes a directory with the
// group's files, starts its command there, and removes the directory when the command has ended. The
// braces make the shell read the whole script before it starts the watch, which would read lines of it
// from the same connection.
func shellScript(g trinity.ProcessGroup, gpus []string, until string) ([]byte, error) {
	files, err := archive(g.Files)
	if err != nil {
		return nil, err
	}
	var s strings.Builder
	fmt.Fprintf(&s, "{\numask 077\ndir=$(mktemp -d \"${TMPDIR:-/tmp}/trinity-%s-XXXXXX\") && cd \"$dir\" || exit 1\n", g.Name)
	fmt.Fprintf(&s, "base64 -d <<'END' | tar -xf - || exit 1\n%sEND\n", files)
	if err := export(&s, environment(g)); err != nil {
		return nil, err
	}
	if g.GPUs > 0 && len(gpus) > 0 { // of those that the machine or a scheduler lets this process see
		s.WriteString(selectGPUs(gpus))
	}
	// A message of the shell to a closed connection would end it before it has removed the directory. A
	// process that it has just forked loses the signals that it traps, so it traps them last.
	fmt.Fprintf(&s, `trap : PIPE
exec 3<&0
%s </dev/null 3<&- &
program=$!
%strap 'kill -TERM "$program"' TERM INT HUP
wait "$program"
status=$?
while kill -0 "$program" 2>/dev/null; do # a signal has ended the wait
	wait "$program"
	status=$?
done
[ -z "$watch" ] || kill "$watch" 2>/dev/null
cd / && rm -rf "$dir"
exit "$status"
}
`, quoteAll(g.Command), until)
	return []byte(s.String()), nil
}

// export writes the lines of a script that set variables.
func export(script *strings.Builder, env map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !variableName.MatchString(name) {
			return fmt.Errorf("a script cannot set the variable %q: rename it", name)
		}
		fmt.Fprintf(script, "export %s=%s\n", name, quote(env[name]))
	}
	return nil
}

// selectGPUs returns the line that leaves a program only those GPUs, by their place in a list.
func selectGPUs(gpus []string) string {
	var places, numbers []string
	for _, gpu := range gpus {
		n, _ := strconv.Atoi(gpu)
		places = append(places, strconv.Itoa(n+1))
		for len(numbers) <= n {
			numbers = append(numbers, strconv.Itoa(len(numbers)))
		}
	}
	return fmt.Sprintf("export %[1]s=$(echo \"${%[1]s:-%[2]s}\" | cut -d, -f%[3]s)\n", visibleGPUs, strings.Join(numbers, ","),
		strings.Join(places, ","))
}

// archive returns files as base64 of a tar file, in lines.
func archive(files map[string][]byte) (string, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}); err != nil {
			return "", err
		}
		if _, err := w.Write(files[name]); err != nil {
			return "", err
		}
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	var lines strings.Builder
	for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString(packed.Bytes())), 76) {
		lines.Write(line)
		lines.WriteByte('\n')
	}
	return lines.String(), nil
}

// plainWord is a word that a shell leaves as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quote returns a word as a shell reads it.
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func quoteAll(words []string) string {
	var quoted []string
	for _, word := range words {
		quoted = append(quoted, quote(word))
	}
	return strings.Join(quoted, " ")
}
