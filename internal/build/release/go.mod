// What makes releases and images. It is a module of its own so that the programs'
// dependencies stay what they are.
module github.com/millrace/millrace/internal/build/release

go 1.26.0

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	github.com/google/go-containerregistry v0.22.1
	github.com/in-toto/attestation v1.2.0
	github.com/package-url/packageurl-go v0.1.7
	github.com/secure-systems-lab/go-securesystemslib v0.11.1
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	golang.org/x/crypto v0.55.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
