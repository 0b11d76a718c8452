module github.com/trinity-go/trinity

go 1.26.8
