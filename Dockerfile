# The static binary, certificates of authorities, and directories that any user may write.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION
ARG COMMIT
ARG TARGETOS
ARG TARGETARCH
ENV CGO_ENABLED=0 MODULE=github.com/trinity-go/trinity
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false -tags arrow_json_stdlib,nethttpomithttp2 -ldflags "-s -w -X $MODULE/internal/cli.release=$VERSION -X $MODULE/internal/cli.commit=$COMMIT -funcalign=16" \
	-o /image/usr/local/bin/trinity ./cmd/trinity
RUN mkdir -m 1777 /image/home /image/tmp /image/work

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /image /
ENV HOME=/home
WORKDIR /work
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/trinity"]
