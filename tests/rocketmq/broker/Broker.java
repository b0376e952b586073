import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.embedded.EmbeddedChannel;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeSet;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.constant.ConsumeInitMode;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.store.MessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.queue.CqUnit;

/**
 * A RocketMQ broker on a store directory, with its schedule and its timing wheel.
 *
 * <pre>
 * write DIR                  fills a new store
 * fill DIR                   fills several segments of a new store with messages of topic "orders"
 * read DIR [TOPIC=COUNT ...] opens a store and waits until its topics have that many messages
 * add DIR TOPIC GROUP [TOPIC=COUNT ...]
 *                            the same, after 50 messages for the two queues of TOPIC; GROUP has
 *                            then consumed all of queue 0
 * </pre>
 *
 * Then it prints what it serves, a line each, tab-separated: MESSAGE topic queue offset body,
 * OFFSET topic@group queue offset, GROUP name; then READY. When its input ends it stops in order.
 */
public final class Broker {
  private static final long WAIT_MS = 90_000;

  private final BrokerController broker;
  private final MessageStore store;

  private Broker(String directory) throws Exception {
    BrokerConfig config = new BrokerConfig();
    config.setBrokerIP1("127.0.0.1");
    config.setBrokerClusterName("tests");
    config.setBrokerName("broker");
    NettyServerConfig server = new NettyServerConfig();
    server.setBindAddress("127.0.0.1");
    server.setListenPort(0); // and a free one for its second server, whatever else runs here
    MessageStoreConfig files = new MessageStoreConfig();
    files.setStorePathRootDir(directory);
    files.setStorePathCommitLog(directory + "/commitlog");
    files.setMappedFileSizeCommitLog(1 << 20);
    files.setHaListenPort(0);
    files.setDiskMaxUsedSpaceRatio(99);
    broker = new BrokerController(config, server, new NettyClientConfig(), files);
    if (!broker.initialize()) {
      throw new IllegalStateException("the broker does not open the store");
    }
    broker.start();
    store = broker.getMessageStore();
  }

  public static void main(String[] arguments) {
    try {
      run(arguments);
    } catch (Throwable failure) {
      failure.printStackTrace();
      Runtime.getRuntime().halt(1); // the broker's threads would go on
    }
  }

  private static void run(String[] arguments) throws Exception {
    Broker it = new Broker(arguments[1]);
    int conditions = 2;
    switch (arguments[0]) {
      case "write" -> it.write();
      case "fill" -> it.fill();
      case "add" -> {
        it.add(arguments[2], arguments[3]);
        conditions = 4;
      }
      default -> { }
    }
    for (int i = conditions; i < arguments.length; i++) {
      String[] wanted = arguments[i].split("=");
      it.waitFor(wanted[0], Long.parseLong(wanted[1]));
    }
    it.print();
    System.out.println("READY");
    while (System.in.read() >= 0) { }
    it.broker.shutdown();
    System.exit(0);
  }

  private void write() throws Exception {
    TopicConfig fifo = new TopicConfig("fifo", 2, 2, 6);
    fifo.getAttributes().put("message.type", "FIFO");
    broker.getTopicConfigManager().putTopicConfig(fifo);
    broker.getTopicConfigManager().putTopicConfig(new TopicConfig("orders", 2, 2, 6));
    broker.getTopicConfigManager().putTopicConfig(new TopicConfig("%RETRY%billing", 1, 1, 6));
    broker.getTopicConfigManager().putTopicConfig(new TopicConfig("%DLQ%billing", 1, 1, 6));
    broker.getTopicConfigManager().persist();
    SubscriptionGroupConfig group = new SubscriptionGroupConfig();
    group.setGroupName("billing");
    group.setRetryMaxTimes(5);
    broker.getSubscriptionGroupManager().updateSubscriptionGroupConfig(group);
    for (int i = 0; i < 30; i++) {
      put("orders", i % 2, "order " + i, Map.of());
    }
    for (int i = 0; i < 4; i++) {
      put("fifo", 0, "fifo " + i, Map.of("__SHARDINGKEY", "k"));
    }
    Map<String, String> failed = Map.of("RETRY_TOPIC", "orders", "ORIGIN_MESSAGE_ID", "X");
    put("%RETRY%billing", 0, "retry", failed);
    put("%RETRY%billing", 0, "retry in 5m",
        Map.of("RETRY_TOPIC", "orders", "ORIGIN_MESSAGE_ID", "X", "DELAY", "9"));
    put("%DLQ%billing", 0, "dead", failed);
    put("orders", 0, "level of 1s", Map.of("DELAY", "1"));
    put("orders", 0, "level of 5m", Map.of("DELAY", "9"));
    put("orders", 1, "timer of 2s", Map.of("TIMER_DELAY_MS", "2000"));
    long inAnHour = System.currentTimeMillis() + 3_600_000;
    put("orders", 1, "timer of 1h", Map.of("TIMER_DELIVER_MS", "" + inAnHour));
    prepare("half, open");
    MessageExt ended = store.lookMessageByOffset(prepare("half, ended"));
    broker.getTransactionalMessageService().deletePrepareMessage(ended);
    waitFor("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1);
    pop("popping", "fifo", 3);
    waitFor("orders", 32);
    broker.getConsumerOffsetManager().commitOffset("test", "billing", "orders", 0, 10);
    broker.getConsumerOffsetManager().commitOffset("test", "billing", "orders", 1, 5);
    broker.getConsumerOffsetManager().persist();
  }

  private void fill() throws Exception {
    broker.getTopicConfigManager().putTopicConfig(new TopicConfig("orders", 2, 2, 6));
    broker.getTopicConfigManager().persist();
    for (int i = 0; i < 600; i++) {
      put("orders", i % 2, "order " + i + " " + "x".repeat(i * 31 % 10_000), Map.of());
    }
    waitFor("orders", 600);
  }

  private void add(String topic, String group) throws Exception {
    long before = countOf(topic);
    for (int i = 0; i < 50; i++) {
      put(topic, i % 2, "added " + (before + i), Map.of());
    }
    waitFor(topic, before + 50);
    long end = store.getMaxOffsetInQueue(topic, 0);
    broker.getConsumerOffsetManager().commitOffset("test", group, topic, 0, end);
    broker.getConsumerOffsetManager().persist();
  }

  /** Let a group take messages without an acknowledgement, as POP consumers do. */
  private void pop(String group, String topic, int count) throws Exception {
    SubscriptionGroupConfig config = new SubscriptionGroupConfig();
    config.setGroupName(group);
    broker.getSubscriptionGroupManager().updateSubscriptionGroupConfig(config);
    PopMessageRequestHeader header = new PopMessageRequestHeader();
    header.setConsumerGroup(group);
    header.setTopic(topic);
    header.setQueueId(0);
    header.setMaxMsgNums(count);
    header.setInvisibleTime(600_000);
    header.setPollTime(0);
    header.setBornTime(System.currentTimeMillis());
    header.setInitMode(ConsumeInitMode.MIN);
    RemotingCommand request = RemotingCommand.createRequestCommand(RequestCode.POP_MESSAGE, header);
    request.makeCustomHeaderToNet();
    EmbeddedChannel channel = new EmbeddedChannel(new ChannelInboundHandlerAdapter());
    broker.getPopMessageProcessor().processRequest(channel.pipeline().firstContext(), request);
    long endMs = System.currentTimeMillis() + WAIT_MS;
    while (broker.getConsumerOffsetManager().queryOffset(group, topic, 0) < count) {
      if (System.currentTimeMillis() > endMs) {
        throw new IllegalStateException(group + " did not get " + count + " messages");
      }
      Thread.sleep(100);
    }
  }

  /** The first half of a transaction; its place in the log. */
  private long prepare(String body) {
    MessageExtBrokerInner half =
        message("orders", 0, body, Map.of("TRAN_MSG", "true", "PGROUP", "producers"));
    half.setSysFlag(MessageSysFlag.TRANSACTION_PREPARED_TYPE);
    PutMessageResult stored = broker.getTransactionalMessageService().prepareMessage(half);
    if (!stored.isOk()) {
      throw new IllegalStateException(body + " was not stored");
    }
    return stored.getAppendMessageResult().getWroteOffset();
  }

  private void put(String topic, int queue, String body, Map<String, String> properties) {
    if (!store.putMessage(message(topic, queue, body, properties)).isOk()) {
      throw new IllegalStateException(body + " was not stored");
    }
  }

  private static MessageExtBrokerInner message(
      String topic, int queue, String body, Map<String, String> properties) {
    MessageExtBrokerInner message = new MessageExtBrokerInner();
    message.setTopic(topic);
    message.setQueueId(queue);
    message.setTags("red");
    message.setKeys("key");
    properties.forEach((name, value) -> MessageAccessor.putProperty(message, name, value));
    MessageAccessor.putProperty(message, "UNIQ_KEY", MessageClientIDSetter.createUniqID());
    message.setBody(body.getBytes(StandardCharsets.UTF_8));
    message.setBornTimestamp(System.currentTimeMillis());
    message.setBornHost(new InetSocketAddress("127.0.0.1", 1));
    message.setStoreHost(new InetSocketAddress("127.0.0.1", 2));
    message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
    return message;
  }

  private void waitFor(String topic, long count) throws Exception {
    long endMs = System.currentTimeMillis() + WAIT_MS;
    while (countOf(topic) < count) {
      if (System.currentTimeMillis() > endMs) {
        throw new IllegalStateException(topic + " has " + countOf(topic) + " messages");
      }
      Thread.sleep(100);
    }
  }

  private long countOf(String topic) throws Exception {
    long count = 0;
    for (int queue = 0; queue < 2; queue++) {
      count += store.getMaxOffsetInQueue(topic, queue) - store.getMinOffsetInQueue(topic, queue);
    }
    return count;
  }

  private void print() throws Exception {
    for (String topic : new TreeSet<>(broker.getTopicConfigManager().getTopicConfigTable().keySet())) {
      for (int queue = 0; queue < 20; queue++) {
        printQueue(topic, queue);
      }
    }
    broker.getConsumerOffsetManager().getOffsetTable().forEach((name, offsets) -> offsets.forEach(
        (queue, offset) -> System.out.println("OFFSET\t" + name + "\t" + queue + "\t" + offset)));
    for (String group : broker.getSubscriptionGroupManager().getSubscriptionGroupTable().keySet()) {
      System.out.println("GROUP\t" + group);
    }
  }

  private void printQueue(String topic, int queue) throws Exception {
    long max = store.getMaxOffsetInQueue(topic, queue);
    if (max <= 0) {
      return;
    }
    ConsumeQueueInterface units = store.getConsumeQueue(topic, queue);
    for (long offset = store.getMinOffsetInQueue(topic, queue); offset < max; offset++) {
      CqUnit unit = units.get(offset);
      MessageExt message = unit == null ? null : store.lookMessageByOffset(unit.getPos(), unit.getSize());
      String body = message == null ? "(missing)" : new String(message.getBody(), StandardCharsets.UTF_8);
      System.out.println("MESSAGE\t" + topic + "\t" + queue + "\t" + offset + "\t" + body);
    }
  }
}
