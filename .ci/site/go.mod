module github.com/trinity-go/trinity/.ci/site

go 1.26.8

require github.com/yuin/goldmark v1.8.7
