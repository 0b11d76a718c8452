package toolcall

// Syntax is how a model writes calls whose arguments are a JSON object: Open, then for each call Before,
// its name, Between, its arguments and After, with Separator between calls, then Close.
type Syntax struct{ Open, Before, Between, After, Separator, Close string }

// SyntaxOf returns the syntax of a format. hasToken reports whether the tokenizer has a special token; the
// formats of Mistral differ by it. It returns false for a format with arguments of another form, and for
// one that nobody knows how to write.
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
	}
	return Syntax{}, false
}
