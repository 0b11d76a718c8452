package dataset

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// match returns the files that the patterns, relative to base, match. It returns an error if a
// path without wildcards is missing, if a shard that a pattern would match is missing, or if no
// file matches.
func (s *splitPatterns) match(base string, all []string) ([]string, error) {
	var found []string
	for _, p := range s.Paths {
		full := path.Join(base, p)
		if !filepath.IsLocal(filepath.FromSlash(full)) || path.IsAbs(p) {
			return nil, fmt.Errorf("path %q is outside of the dataset", p)
		}
		expression, err := globExpression(full)
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", p, err)
		}
		before := len(found)
		for _, f := range all {
			if expression.MatchString(f) {
				found = append(found, f)
			}
		}
		if len(found) == before && !strings.ContainsAny(p, "*?[") {
			return nil, fmt.Errorf("path %q: no such file of a known format (%s)", p, strings.Join(extensions, " "))
		}
		missing := slices.DeleteFunc(missingShards(found[before:]), func(f string) bool { return !expression.MatchString(f) })
		if err := lacking(missing); err != nil {
			return nil, fmt.Errorf("path %q: %w", p, err)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no file of a known format matches %s: there is %s", shortList(s.Paths), shortList(all))
	}
	return found, nil
}

// globExpression compiles a pattern of paths: ? is a character, [abc] and [!abc] are one of a set,
// * matches any characters but "/". A whole part ** matches any directories or, at the end,
// everything below.
func globExpression(pattern string) (*regexp.Regexp, error) {
	parts := strings.Split(pattern, "/")
	var out strings.Builder
	for i, part := range parts {
		last := i == len(parts)-1
		switch {
		case part == "**" && last:
			out.WriteString(".*")
		case part == "**":
			out.WriteString("(.+/)?")
			continue
		case strings.Contains(part, "**"):
			return nil, errors.New("** is a whole part of a path, as in data/**/*.jsonl")
		case part == "*":
			out.WriteString("[^/]+")
		default:
			out.WriteString(globPart(part))
		}
		if !last {
			out.WriteString("/")
		}
	}
	return regexp.Compile("^(?s:" + out.String() + ")$")
}

// set compiles a set of characters; the first may be "]".
var set = regexp.MustCompile(`^\[(!?)(\]?[^\]]*)\]`)

func globPart(part string) string {
	var out strings.Builder
	for part != "" {
		rest := part[1:]
		switch m := set.FindStringSubmatch(part); {
		case m != nil:
			rest = part[len(m[0]):]
			escaped := strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, "^", `\^`).Replace(m[2])
			out.WriteString("[" + map[bool]string{true: "^"}[m[1] != ""] + escaped + "]")
		case part[0] == '*':
			out.WriteString("[^/]*")
		case part[0] == '?':
			out.WriteString("[^/]")
		default:
			out.WriteString(regexp.QuoteMeta(part[:1]))
		}
		part = rest
	}
	return out.String()
}
