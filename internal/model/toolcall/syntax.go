package toolcall

// Syntax is how a model writes calls: Open, then for each call Before, its name, Between, its arguments and
// After, with Separator between calls, then Close.
type Syntax struct {
	Open, Before, Between, After, Separator, Close string
	// Python says that arguments are name=value with values in Python; else they are a JSON object.
	Python bool
}

// SyntaxOf returns the syntax of a format. hasToken reports whether the tokenizer has a special token; the
// formats of Mistral differ by it. It returns false for a format whose arguments are text, and for one that
// nobody knows how to write.
func SyntaxOf(format string, hasToken func(name string) bool) (Syntax, bool) {
	switch format {
	case "hermes":
		return Syntax{
			Before: hermesOpen + "\n" + `{"name": "`, Between: `", "arguments": `, After: "}\n" + hermesClose, Separator: "\n",
		}, true
	case "llama3_json":
		return Syntax{Before: `{"name": "`, Between: `", "parameters": `, After: "}", Separator: "; "}, true
	case "mistral":
		if hasToken(mistralArgs) {
			return Syntax{Before: mistralCalls, Between: mistralArgs}, true
		}
		return Syntax{
			Open: mistralCalls + " [", Before: `{"name": "`, Between: `", "arguments": `, After: "}", Separator: ", ", Close: "]",
		}, true
	case "pythonic":
		return Syntax{Open: "[", Between: "(", After: ")", Separator: ", ", Close: "]", Python: true}, true
	}
	return Syntax{}, false
}
