package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// CreateAdministrator creates a service account and binds it to cluster-admin. Objects that
// exist are left as they are.
func (w *Writer) CreateAdministrator(ctx context.Context, namespace, account string) error {
	for uri, body := range map[string]string{
		"/api/v1/namespaces/" + namespace + "/serviceaccounts": `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"` + account + `"}}`,
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"millrace-bench"},
			"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},
			"subjects":[{"kind":"ServiceAccount","namespace":"` + namespace + `","name":"` + account + `"}]}`,
	} {
		creation := Change{Method: http.MethodPost, URI: uri, ContentType: AcceptJSON, Body: []byte(body)}
		if err := w.Target.Write(ctx, w.Conns[0], creation, http.StatusCreated, http.StatusConflict); err != nil {
			return err
		}
	}
	return nil
}

// UseToken replaces the certificate of the server's clients by a token of a service account,
// which must have all rights. Only one replica can hand on a certificate, so clients of a replica
// of a replica need a token. UseToken writes the new kubeconfig to file, and sets Target and
// Kubeconfig.
func (s *Server) UseToken(ctx context.Context, namespace, account, file string) error {
	token, err := s.requestToken(ctx, namespace, account)
	if err != nil {
		return fmt.Errorf("request token: %w", err)
	}
	old := s.Target.Config.REST
	cluster := &api.Cluster{Server: old.Host, CertificateAuthority: old.CAFile, CertificateAuthorityData: old.CAData,
		TLSServerName: old.ServerName}
	config := api.Config{
		CurrentContext: "bench", Clusters: map[string]*api.Cluster{"bench": cluster}, AuthInfos: map[string]*api.AuthInfo{"bench": {Token: token}},
		Contexts: map[string]*api.Context{"bench": {Cluster: "bench", AuthInfo: "bench"}},
	}
	if err := clientcmd.WriteToFile(config, file); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	authenticated := rest.AnonymousClientConfig(old)
	authenticated.BearerToken = token
	cfg := s.Target.Config
	cfg.REST = authenticated
	if s.Target, err = NewTarget(cfg); err != nil {
		return err
	}
	s.Kubeconfig = file
	return nil
}

// requestToken returns a new token of a service account.
func (s *Server) requestToken(ctx context.Context, namespace, account string) (string, error) {
	c, err := s.Target.Dial(0)
	if err != nil {
		return "", err
	}
	defer c.Close()
	request := Change{
		Method: http.MethodPost, URI: "/api/v1/namespaces/" + namespace + "/serviceaccounts/" + account + "/token", ContentType: AcceptJSON,
		Body: []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`),
	}
	body, err := s.Target.WriteAndRead(ctx, c, request, http.StatusCreated)
	if err != nil {
		return "", err
	}
	var answer struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", fmt.Errorf("decode answer: %w", err)
	}
	return answer.Status.Token, nil
}
