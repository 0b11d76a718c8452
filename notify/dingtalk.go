package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// DingTalk is a robot of a group.
type DingTalk struct {
	Enabled     *bool  `yaml:"enabled"`
	AccessToken string `yaml:"access_token"`
	Secret      string `yaml:"secret"` // signs requests, where the robot wants that

	server string // of tests
}

func (d *DingTalk) validate() error {
	if d.AccessToken == "" {
		return errors.New("access_token: want that of the robot")
	}
	return nil
}

func (d *DingTalk) send(ctx context.Context, subject, text string) error {
	answer, err := post(ctx, d.address(time.Now()), map[string]any{"msgtype": "text", "text": map[string]string{"content": subject + "\n" + text}})
	if err != nil {
		return err
	}
	var out struct {
		Code    int    `json:"errcode"`
		Message string `json:"errmsg"`
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return err
	}
	if out.Code != 0 {
		return fmt.Errorf("error %d: %s", out.Code, out.Message)
	}
	return nil
}

// address is where the robot takes messages, signed with the time: base64(HMAC-SHA256(secret, milliseconds ‖ "\n" ‖ secret)).
func (d *DingTalk) address(now time.Time) string {
	query := url.Values{"access_token": {d.AccessToken}}
	if d.Secret != "" {
		stamp := fmt.Sprint(now.UnixMilli())
		mac := hmac.New(sha256.New, []byte(d.Secret))
		mac.Write([]byte(stamp + "\n" + d.Secret))
		query.Set("timestamp", stamp)
		query.Set("sign", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	server := "https://oapi.dingtalk.com"
	if d.server != "" {
		server = d.server
	}
	return server + "/robot/send?" + query.Encode()
}
