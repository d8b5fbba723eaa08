package differential

import "strings"

const (
	asTable        = ";as=Table;v=v1;g=meta.k8s.io"
	asTableBeta    = ";as=Table;v=v1beta1;g=meta.k8s.io"
	kubectlGet     = "application/json" + asTable + ",application/json" + asTableBeta + ",application/json"
	asMetadata     = ";as=PartialObjectMetadataLIST;v=v1;g=meta.k8s.io"
	asMetadataBeta = ";as=PartialObjectMetadataLIST;v=v1beta1;g=meta.k8s.io"
	metadataClient = protobuf + asMetadata + ",application/json" + asMetadata + ",application/json"
	typedClient    = protobuf + ",application/json"
)

// accepted are Accept headers that clients send and servers understand. LIST
// stands for "List" in requests for lists, and for nothing in others.
var accepted = []string{
	"", "*/*", "application/json", protobuf, typedClient, "application/yaml", "application/json;pretty=1", "application/yaml;q=0.5",
	kubectlGet, kubectlGet, "application/json" + asTable, "application/json" + asTableBeta, "application/yaml" + asTable, tableForm,
	"application/json" + asTable + ";pretty=1", "application/json;q=0.9" + asTable + ",application/json;q=0.1",
	metadataClient, metadataClient, "application/json" + asMetadata, "application/json" + asMetadataBeta,
	protobuf + asMetadata, protobuf + asMetadataBeta, "application/yaml" + asMetadata, "application/json" + asMetadata + ",application/json",
	protobuf + ";q=0.2,application/json;q=0.8", "application/json;q=0.5,application/yaml;q=0.9," + protobuf + ";q=0.1",
	"application/json" + asTable + "," + protobuf, "application/json;charset=utf-8", "application/json, text/plain, */*",
}

// refused are Accept headers that servers refuse, or that they answer in
// another form than requested.
var refused = []string{
	protobuf + asTable, protobuf + asTable + ",application/json", "application/cbor", "application/cbor" + asTable, "*/*" + asTable, "application/*" + asTable,
	"application/json;as=Table", "application/json;as=Table;g=meta.k8s.io", "application/json;as=Table;v=v1", "application/json;as=Table;v=v2;g=meta.k8s.io",
	"application/json;as=Table;v=v1;g=meta.k8s.io;", "application/json;as=table;v=v1;g=meta.k8s.io", "application/json;as=Table;v=v1;g=apps",
	"application/json;as=Status;v=v1;g=meta.k8s.io", "application/json;as=Pod;v=v1;g=", "application/json;as=;v=v1;g=meta.k8s.io",
	"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
	protobuf + ";as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataLIST;v=v2;g=meta.k8s.io",
	"application/json;stream=watch", "application/json;as=Table;v=v1;g=meta.k8s.io;stream=watch", "application/json;unknown=1", "application/json;q=0", "application/json;q=x",
	"application/json;profile=nopeer", "junk", "application", "/", ";", "application/json;", "application/json;as", "application/json;=Table", ",,application/json",
	`application/json;as="Table";v="v1";g="meta.k8s.io"`, "application/json ; as=Table ; v=v1 ; g=meta.k8s.io", "APPLICATION/JSON" + asTable, "text/html" + asTable,
	"text/html;q=0.9,application/json" + asTable, "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,*/*", "application/json\t" + asTable,
	"application/apply-patch+yaml", "application/json-seq", "application/json;v=v1", "application/json;g=meta.k8s.io;v=v1",
}

func (gen *requestGenerator) accept(list, wild bool) string {
	word := ""
	if list {
		word = "List"
	}
	accept := pick(gen, accepted...)
	if gen.once(3) {
		accept = pick(gen, "", "application/json", typedClient)
	}
	if wild && gen.once(2) {
		accept = pick(gen, refused...)
		if gen.once(4) {
			accept += "," + pick(gen, accepted...)
		}
		word = pick(gen, "", "List")
	}
	return strings.ReplaceAll(accept, "LIST", word)
}
