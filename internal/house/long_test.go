package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A long test that names a folder which is not there would never run before a landing.
func TestRoomsOfLongTestsExist(t *testing.T) {
	found := 0
	for pkg, files := range sources(t) {
		lists := map[string][]string{} // variables of rooms, by name
		var called []string
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ValueSpec:
					if len(n.Names) == 1 && len(n.Values) == 1 {
						lists[n.Names[0].Name] = texts(n.Values[0])
					}
				case *ast.CallExpr:
					called = append(called, roomsOf(n)...)
				}
				return true
			})
		}
		for _, room := range called {
			rooms, ok := lists[strings.TrimPrefix(room, "$")]
			if !ok {
				rooms = []string{room}
			}
			for _, room := range rooms {
				found++
				if info, err := os.Stat(filepath.Join("../..", filepath.FromSlash(room))); err != nil || !info.IsDir() {
					t.Errorf("a long test of %s names %q, which is no folder", pkg, room)
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d rooms of long tests were found", found)
	}
}

// roomsOf returns the rooms that a call of trinitytest.Long or EffortFor names: folders, and with a
// dollar sign the names of variables.
func roomsOf(call *ast.CallExpr) (rooms []string) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	first, long := map[string]int{"Long": 2, "EffortFor": 0}[f.Sel.Name]
	if !long || len(call.Args) < first {
		return nil
	}
	for _, arg := range call.Args[first:] {
		rooms = append(rooms, texts(arg)...)
		ast.Inspect(arg, func(n ast.Node) bool {
			if name, ok := n.(*ast.Ident); ok && name.Name != "append" {
				rooms = append(rooms, "$"+name.Name)
			}
			return true
		})
	}
	return rooms
}

// texts are the strings within an expression.
func texts(e ast.Expr) (all []string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				all = append(all, text)
			}
		}
		return true
	})
	return all
}
