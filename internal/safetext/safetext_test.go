package safetext

import "testing"

func TestHidden(t *testing.T) {
	for text, want := range map[string]string{
		"path: mysql://ann:a@b/c@host/db is wrong":                  "path: mysql://ann:***@host/db is wrong",
		"sqlite:////a/b@c:d.db":                                     "sqlite:////a/b@c:d.db",
		"https://ann@host:80/a@b":                                   "https://ann@host:80/a@b",
		"postgresql://ann@host/db?password=a%20b&sslpassword=c&x=1": "postgresql://ann@host/db?password=***&sslpassword=***&x=1",
		"postgresql://ann:a@host/db?sslmode=disable&password=b is":  "postgresql://ann:***@host/db?sslmode=disable&password=*** is",
		`Post "https://host/x?access_token=a&api_key=b": gone`:      `Post "https://host/x?access_token=***&api_key=***": gone`,
		"mail ann@host: hello":                                      "mail ann@host: hello",
		"waits for reward python3 score.py --api-key=sk-1 -v":       "waits for reward python3 score.py --api-key=*** -v",
		"agent --hf-token 'a b' --OPENAI_API_KEY x --token=y z":     "agent --hf-token *** --OPENAI_API_KEY *** --token=*** z",
		"--password": "--password",
		"-api-key=a --db-password=b \"--secret=c\"":                         "-api-key=*** --db-password=*** \"--secret=***\"",
		"--max-tokens 5 --pad-token=x --tokenizer=y --key a --prompt-key=q": "--max-tokens 5 --pad-token=x --tokenizer=y --key a --prompt-key=q",
	} {
		if got := Hidden(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
